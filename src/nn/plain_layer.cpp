#include "plain_layer.hpp"

#include <gpuhpc/base/error.hpp>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "cpu_layer.hpp"

namespace gpuhpc {

void check_token_ids(const at::Tensor& ids, std::int64_t rows) {
  if (!ids.is_cpu()) return;
  const auto [low, high] = at::aminmax(ids);
  if (low.item<std::int64_t>() < 0 || high.item<std::int64_t>() >= rows)
    throw input_error(
        "a token id lies outside the word table of {} rows (ids {} to {}); take tokenizer and "
        "weights from one model",
        rows, low.item<std::int64_t>(), high.item<std::int64_t>());
}

at::Tensor table_rows(const at::Tensor& table, const at::Tensor& ids) {
  const bool has_place = table.is_cpu() && table.is_leaf() && table.grad().defined() &&
                         table.grad().layout() == at::kStrided;
  return at::embedding(table, ids, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                       /*sparse=*/has_place);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return at::gelu(x, "none");
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::relu:
      return at::relu(x);
  }
  throw internal_error("activation {} is unknown", static_cast<int>(activation));
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where the generators that a layer draws from stand.
class GeneratorStates {
 public:
  explicit GeneratorStates(std::vector<at::Generator> generators) {
    for (at::Generator& generator : generators) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      at::Tensor state = generator.get_state();
      states_.emplace_back(std::move(generator), std::move(state));
    }
  }
  static GeneratorStates of(const at::Tensor& hidden, const ForwardOptions& options) {
    std::vector<at::Generator> generators;
    if (options.generator) generators.push_back(*options.generator);
    // Attention on a GPU draws from the device's own generator (ops.hpp).
    if (hidden.is_cuda() && options.attention_dropout > 0)
      generators.push_back(at::globalContext().defaultGenerator(hidden.device()));
    return GeneratorStates(std::move(generators));
  }
  void restore() const {
    for (const auto& [generator, state] : states_) {
      at::Generator target = generator;
      const std::lock_guard<std::mutex> lock(target.mutex());
      target.set_state(state);
    }
  }
  GeneratorStates now() const {
    std::vector<at::Generator> generators;
    for (const auto& [generator, state] : states_) generators.push_back(generator);
    return GeneratorStates(std::move(generators));
  }

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

// How to compute the layer again.
struct Recipe : torch::CustomClassHolder {
  Recipe(LayerBody b, GeneratorStates s) : body(std::move(b)), before(std::move(s)) {}
  LayerBody body;
  GeneratorStates before;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            at::TensorList parameters, const c10::intrusive_ptr<Recipe>& recipe) {
    variable_list saved = parameters.vec();
    saved.push_back(hidden);
    context->save_for_backward(saved);
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    return recipe->body(parameters.vec(), hidden);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["recipe"].toCapsule();
    const auto& recipe = static_cast<const Recipe&>(*capsule);
    variable_list parameters = context->get_saved_variables();
    const at::Tensor hidden =
        parameters.back().detach().set_requires_grad(context->needs_input_grad(0));
    parameters.pop_back();
    const at::AutoGradMode with_graph(true);
    const GeneratorStates present = recipe.before.now();
    recipe.before.restore();
    const at::Tensor output = recipe.body(parameters, hidden);
    present.restore();
    variable_list wanted;
    std::vector<std::size_t> places;
    const auto want = [&](const at::Tensor& tensor, std::size_t place) {
      if (!tensor.requires_grad()) return;
      wanted.push_back(tensor);
      places.push_back(place);
    };
    want(hidden, 0);
    for (std::size_t i = 0; i < parameters.size(); ++i) want(parameters[i], 1 + i);
    const variable_list found = torch::autograd::grad({output}, wanted, gradients);
    variable_list result(parameters.size() + 2);
    for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
    return result;
  }
};

}  // namespace

at::Tensor plain_layer(const EncoderConfig& config, const std::vector<at::Tensor>& p,
                       const at::Tensor& hidden, const PackedTokens& batch,
                       const ForwardOptions& options, const at::Tensor& firsts) {
  const auto kept = [&](const at::Tensor& rows) {
    return firsts.defined() ? rows.index_select(0, firsts) : rows;
  };
  const auto add_and_norm = [&](const at::Tensor& change, const at::Tensor& residual,
                                LayerParameter norm) {
    const at::Tensor sum =
        residual + seeded_dropout(change, options.hidden_dropout, options.generator);
    return at::layer_norm(sum, {config.hidden_size}, p[norm], p[norm + 1],
                          config.layer_norm_epsilon);
  };
  const at::Tensor qkv =
      joined_linear(hidden, {p[query_weight], p[key_weight], p[value_weight]},
                    {p[query_bias], p[key_bias], p[value_bias]}, options.compute);  // (T,3H)
  const auto split = qkv.view({qkv.size(0), 3, config.heads, config.head_size()}).unbind(1);
  const double kinds = config.relative ? 3 : 1;  // of scores that are added up
  AttentionOptions how{.divisor = std::sqrt(kinds * static_cast<double>(config.head_size())),
                       .dropout = options.attention_dropout,
                       .generator = options.generator};
  if (config.relative)
    how.scores = disentangled_scores(config, p, options, batch.max_len, how.divisor);
  if (config.distances) how.bias = p[relative_bias];
  const at::Tensor context = attention(split[0], split[1], split[2], batch, batch, how);
  const at::Tensor attended = add_and_norm(
      mixed_linear(kept(context), p[attention_weight], p[attention_bias], options.compute),
      kept(hidden), attention_norm_weight);
  const at::Tensor wide = activate(
      mixed_linear(attended, p[intermediate_weight], p[intermediate_bias], options.compute),
      config.activation);
  return add_and_norm(mixed_linear(wide, p[output_weight], p[output_bias], options.compute),
                      attended, output_norm_weight);
}

at::Tensor checkpointed(const LayerBody& body, const std::vector<at::Tensor>& parameters,
                        const at::Tensor& hidden, const ForwardOptions& options) {
  return Checkpoint::apply(hidden, at::TensorList(parameters),
                           c10::make_intrusive<Recipe>(body, GeneratorStates::of(hidden, options)));
}

}  // namespace gpuhpc
