#include "cpu_layer.hpp"

#include <gpuhpc/kernels/isa.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include "cpu_products.hpp"
#include "documents.hpp"
#include "dropout.hpp"

namespace gpuhpc {
namespace {

using kernels::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What forward leaves for backward. Rows in T and fp32 have padded_rows(T) rows.
struct LayerRecord {
  at::Tensor qkv, attended, middle, pre, wide;              // T: (3H), (H), (H), (F), (F)
  at::Tensor normalised1, factors1, normalised2, factors2;  // fp32: (H), (1), (H), (1)
};

struct LayerState : torch::CustomClassHolder {
  std::shared_ptr<CpuLayerContext> context;
  std::vector<std::int32_t> offsets;
  std::int64_t tokens = 0;
  at::Tensor firsts;        // the rows that go on behind attention; undefined: all
  bool checkpoint = false;  // `record` is made again by backward
  kernels::Dropout of_shares, of_attended, of_wide;  // attention's shares, what both halves add
  std::int64_t longest_document = 0;
  at::Tensor input;  // T: (H)
  LayerRecord record;
  std::int64_t rows_behind_attention() const { return firsts.defined() ? firsts.size(0) : tokens; }
};

// Sums over rows, a row of its own for each lot.
class LotSums {
 public:
  LotSums(std::int64_t lots, std::int64_t columns)
      : sums_(at::zeros({lots, columns}, at::TensorOptions().dtype(at::kFloat))) {}
  float* lot(std::int64_t lot, std::int64_t first_column = 0) const {
    return pointer<float>(sums_) + lot * sums_.size(1) + first_column;
  }
  at::Tensor total() const {
    const at::Tensor total = sums_[0].clone();
    float* to = pointer<float>(total);
    for (std::int64_t l = 1; l < sums_.size(0); ++l)
      std::transform(to, to + sums_.size(1), lot(l), to, std::plus<float>());
    return total;
  }

 private:
  at::Tensor sums_;
};

class LayerContext : public CpuLayerContext {
 public:
  // The output and its rounded copy; fills the record.
  virtual variable_list forward(LayerState& state, const at::Tensor& hidden,
                                at::TensorList parameters) = 0;
  virtual variable_list backward(const LayerState& state, const at::Tensor& gradient,
                                 at::TensorList parameters, bool of_input) = 0;
};

template <typename T>
class TypedContext : public LayerContext {
 public:
  TypedContext(const EncoderConfig& config, kernels::Isa isa)
      : config_(config), products_(isa), table_(kernels::training_kernels<T>(isa)) {}

  variable_list forward(LayerState& state, const at::Tensor& hidden, at::TensorList p) override {
    const std::lock_guard lock(mutex_);
    tokens_ = state.tokens;
    LayerRecord& s = state.record;
    const std::int64_t h = config_.hidden_size, f = config_.intermediate_size,
                       tokens = state.rows_behind_attention();
    if (!state.input.defined()) state.input = rounded(hidden);
    s.qkv = rows<T>(3 * h);
    products_.linear(state.input, joined(p), state.tokens, s.qkv);
    s.attended = rows<T>(h);
    attend(state, p);
    tokens_ = tokens;
    if (state.firsts.defined()) s.attended = gathered(s.attended, state.firsts);
    const at::Tensor residual = state.firsts.defined() ? gathered(hidden, state.firsts) : hidden,
                     change = rows<T>(h);
    products_.linear(s.attended, {{p[attention_weight]}, {p[attention_bias]}}, tokens, change);
    const at::Tensor middle = rows<float>(h);
    add_norm(residual, change, state.of_attended, p[attention_norm_weight], p[attention_norm_bias],
             middle, s.middle, s.normalised1, s.factors1);
    s.pre = rows<T>(f);
    products_.linear(s.middle, {{p[intermediate_weight]}, {p[intermediate_bias]}}, tokens, s.pre);
    s.wide = rows<T>(f);
    over_rows(products_.table(), tokens, [&](std::int64_t first, std::int64_t last) {
      table_.activation({pointer<T>(s.pre) + first * f, last - first, f,
                         kernel_activation(config_.activation), pointer<T>(s.wide) + first * f});
    });
    products_.linear(s.wide, {{p[output_weight]}, {p[output_bias]}}, tokens, change);
    const at::Tensor out = at::empty({tokens, h}, hidden.options().requires_grad(false));
    at::Tensor out_rounded;
    add_norm(middle, change, state.of_wide, p[output_norm_weight], p[output_norm_bias], out,
             out_rounded, s.normalised2, s.factors2);
    return {out, out_rounded};
  }

  // Gradients of hidden (undefined unless asked for) and of the parameters.
  variable_list backward(const LayerState& state, const at::Tensor& gradient, at::TensorList p,
                         bool of_input) override {
    const std::lock_guard lock(mutex_);
    const std::int64_t tokens = tokens_ = state.rows_behind_attention();
    const LayerRecord& s = state.record;
    const std::int64_t h = config_.hidden_size, f = config_.intermediate_size;
    variable_list result(1 + p.size());
    const auto of = [&](LayerParameter which) -> at::Tensor& { return result[1 + which]; };
    at::Tensor flow = rows<float>(h),
               change = rows<T>(h);  // gradient of the residual stream; of what was added to it
    add_norm_gradient(gradient, s.normalised2, s.factors2, p[output_norm_weight], state.of_wide,
                      flow, change, &of(output_norm_weight));
    of(output_bias) = std::move(sums_of_change_);
    of(output_weight) = products_.weight_gradient(change, s.wide, tokens);

    const at::Tensor wide = rows<T>(f);
    products_.input_product(change, {{p[output_weight]}, {}}, tokens, wide);
    const LotSums wide_sums(row_lots(tokens), f);
    each_lot_of_rows(tokens, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      T* values = pointer<T>(wide) + first * f;
      table_.activation_gradient({pointer<T>(s.pre) + first * f, values, last - first, f,
                                  kernel_activation(config_.activation), values,
                                  wide_sums.lot(lot)});
    });
    of(intermediate_bias) = wide_sums.total();
    of(intermediate_weight) = products_.weight_gradient(wide, s.middle, tokens);
    products_.input_gradient(wide, {{p[intermediate_weight]}, {}}, tokens, flow);

    add_norm_gradient(flow, s.normalised1, s.factors1, p[attention_norm_weight], state.of_attended,
                      flow, change, &of(attention_norm_weight));
    of(attention_bias) = std::move(sums_of_change_);
    of(attention_weight) = products_.weight_gradient(change, s.attended, tokens);
    at::Tensor attended = rows<T>(h);
    products_.input_product(change, {{p[attention_weight]}, {}}, tokens, attended);
    tokens_ = state.tokens;
    if (state.firsts.defined())
      attended = scattered(attended, state.firsts), flow = scattered(flow, state.firsts);
    attention_gradients(state, p, attended, flow, of_input, result);
    return result;
  }

 private:
  // The part before attention's output: its gradient and the residual stream's, (T,H) each.
  void attention_gradients(const LayerState& state, at::TensorList p, const at::Tensor& attended,
                           const at::Tensor& flow, bool of_input, variable_list& result) {
    const std::int64_t tokens = state.tokens, h = config_.hidden_size;
    const at::Tensor qkv = rows<T>(3 * h);
    const LotSums qkv_sums(row_lots(tokens), 3 * h);
    attend_gradient(state, p, attended, qkv, result);
    each_lot_of_rows(tokens, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      table_.column_sums({pointer<T>(qkv) + first * 3 * h, last - first, 3 * h, qkv_sums.lot(lot)});
    });
    const auto biases = qkv_sums.total().split(h);
    const auto weights = products_.weight_gradient(qkv, state.input, tokens).split(h);
    for (std::size_t i = 0; i < 3; ++i) {
      result[1 + query_weight + 2 * i] = weights[i];
      result[1 + query_bias + 2 * i] = biases[i];
    }
    if (of_input) {
      products_.input_gradient(qkv, joined(p), tokens, flow);
      result[0] = flow.narrow(0, 0, tokens);
    }
  }

  template <typename S>
  at::Tensor rows(std::int64_t columns) const {
    return at::empty({padded_rows(tokens_), columns}, at::TensorOptions().dtype(scalar_type<S>));
  }
  at::Tensor rounded(const at::Tensor& hidden) const {
    const at::Tensor copy = rows<T>(hidden.size(1));
    copy.narrow(0, 0, tokens_).copy_(hidden);
    return copy;
  }
  // Rows `places` of x, and their way back into zeros; both padded.
  static at::Tensor gathered(const at::Tensor& x, const at::Tensor& places) {
    const at::Tensor result = at::empty({padded_rows(places.size(0)), x.size(1)}, x.options());
    result.narrow(0, 0, places.size(0)).copy_(x.index_select(0, places));
    return result;
  }
  at::Tensor scattered(const at::Tensor& x, const at::Tensor& places) const {
    return at::zeros({padded_rows(tokens_), x.size(1)}, x.options())
        .index_copy_(0, places, x.narrow(0, 0, places.size(0)));
  }
  static Linears joined(at::TensorList p) {
    return {{p[query_weight], p[key_weight], p[value_weight]},
            {p[query_bias], p[key_bias], p[value_bias]}};
  }

  // The dropout of rows from `first` on.
  kernels::Dropout from_row(kernels::Dropout dropout, std::int64_t first) const {
    dropout.first += kernels::dropout_counters(first, config_.hidden_size);
    return dropout;
  }

  void add_norm(const at::Tensor& residual, const at::Tensor& change,
                const kernels::Dropout& dropout, const at::Tensor& gamma, const at::Tensor& beta,
                const at::Tensor& out, at::Tensor& out_rounded, at::Tensor& normalised,
                at::Tensor& factors) const {
    const std::int64_t h = config_.hidden_size;
    out_rounded = rows<T>(h);
    normalised = rows<float>(h);
    factors = rows<float>(1);
    over_rows(products_.table(), tokens_, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t at = first * h;
      table_.add_norm({pointer<float>(residual) + at, pointer<T>(change) + at, last - first, h,
                       pointer<float>(gamma), pointer<float>(beta),
                       static_cast<float>(config_.layer_norm_epsilon), pointer<float>(out) + at,
                       pointer<T>(out_rounded) + at, pointer<float>(normalised) + at,
                       pointer<float>(factors) + first, from_row(dropout, first)});
    });
  }

  // of_norm[0], of_norm[1]: gradients of gamma and beta; the bias inside `change` gets
  // sums_of_change_.
  void add_norm_gradient(const at::Tensor& gradient, const at::Tensor& normalised,
                         const at::Tensor& factors, const at::Tensor& gamma,
                         const kernels::Dropout& dropout, const at::Tensor& flow,
                         const at::Tensor& change, at::Tensor* of_norm) {
    const std::int64_t h = config_.hidden_size;
    const LotSums sums(row_lots(tokens_), 3 * h);
    each_lot_of_rows(tokens_, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      const std::int64_t at = first * h;
      table_.add_norm_gradient({pointer<float>(gradient) + at, pointer<float>(normalised) + at,
                                pointer<float>(factors) + first, pointer<float>(gamma),
                                last - first, h, pointer<float>(flow) + at, pointer<T>(change) + at,
                                sums.lot(lot), sums.lot(lot, h), sums.lot(lot, 2 * h),
                                from_row(dropout, first)});
    });
    const auto parts = sums.total().split(h);
    of_norm[0] = parts[0];
    of_norm[1] = parts[1];
    sums_of_change_ = parts[2];
  }

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(config_.head_size())); }

  static const float* start(at::TensorList p) {
    return p.size() > relative_bias
               ? pointer<float>(p[relative_bias]) + (p[relative_bias].size(1) - 1) / 2
               : nullptr;
  }
  static std::int64_t start_head(at::TensorList p) {
    return p.size() > relative_bias ? p[relative_bias].size(1) : 0;
  }

  // Of the document whose first token is `from`: no two share a counter.
  kernels::Dropout of_document(const LayerState& s, std::int64_t from) const {
    kernels::Dropout dropout = s.of_shares;
    dropout.first = kernels::dropout_counters(config_.heads * from, s.longest_document);
    return dropout;
  }

  void attend(const LayerState& s, at::TensorList p) const {
    const std::int64_t h = config_.hidden_size;
    const bool drops = s.of_shares.threshold > 0;
    each_document(s.offsets, [&](std::int64_t first, std::int64_t last) {
      const kernels::KernelScope<T> scope(products_.table());
      const std::int64_t most = longest(s.offsets, first, last);
      kernels::AlignedBuffer<std::byte> scratch(
          drops ? kernels::attention_gradient_scratch_bytes(most, config_.head_size())
                : kernels::attention_scratch_bytes(most, config_.head_size()));
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t from = s.offsets[static_cast<std::size_t>(b)],
                           length = s.offsets[static_cast<std::size_t>(b) + 1] - from;
        const kernels::AttentionCall<T> call{pointer<T>(s.record.qkv) + from * 3 * h,
                                             3 * h,
                                             h,
                                             2 * h,
                                             length,
                                             config_.heads,
                                             config_.head_size(),
                                             scale(),
                                             pointer<T>(s.record.attended) + from * h,
                                             h,
                                             scratch.data(),
                                             start(p),
                                             -1,
                                             start_head(p)};
        if (drops)
          table_.dropped_attention({call, of_document(s, from)});
        else
          products_.table().attention(call);
      }
    });
  }

  // Gradient of qkv to `of_qkv`; of the bias to its place in `result`.
  void attend_gradient(const LayerState& s, at::TensorList p, const at::Tensor& gradient,
                       const at::Tensor& of_qkv, variable_list& result) const {
    const std::int64_t h = config_.hidden_size, middle = (start_head(p) - 1) / 2;
    const LotSums of_bias(document_lots(s.offsets), config_.heads * start_head(p));
    each_lot_of_documents(s.offsets, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      const kernels::KernelScope<T> scope(products_.table());
      const at::Tensor scratch =
          at::empty({kernels::attention_gradient_scratch_bytes(longest(s.offsets, first, last),
                                                               config_.head_size())},
                    at::TensorOptions().dtype(at::kByte));
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t from = s.offsets[static_cast<std::size_t>(b)],
                           length = s.offsets[static_cast<std::size_t>(b) + 1] - from;
        table_.attention_gradient(
            {pointer<T>(s.record.qkv) + from * 3 * h, 3 * h, h, 2 * h, length, config_.heads,
             config_.head_size(), scale(), pointer<T>(gradient) + from * h, h,
             pointer<T>(of_qkv) + from * 3 * h, 3 * h, pointer<std::byte>(scratch), start(p), -1,
             start_head(p), of_bias.lot(lot, middle), of_document(s, from)});
      }
    });
    if (start_head(p) > 0)
      result[1 + relative_bias] = of_bias.total().view(p[relative_bias].sizes());
  }

  EncoderConfig config_;
  CpuProducts<T> products_;
  kernels::TrainingKernels<T> table_;
  std::int64_t tokens_ = 0;
  at::Tensor sums_of_change_;
  std::mutex mutex_;
};

LayerContext& typed(const LayerState& state) { return static_cast<LayerContext&>(*state.context); }

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden,
                               at::TensorList parameters,
                               const c10::intrusive_ptr<LayerState>& state) {
    const variable_list outputs = typed(*state).forward(*state, hidden.contiguous(), parameters);
    variable_list saved = parameters.vec();
    if (state->checkpoint) {
      state->record = {};
      saved.push_back(hidden);
    }
    context->save_for_backward(saved);
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    context->mark_non_differentiable({outputs[1]});
    return outputs;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["state"].toCapsule();
    auto& state = static_cast<LayerState&>(*capsule);
    variable_list parameters = context->get_saved_variables();
    if (state.checkpoint) {
      const at::Tensor hidden = parameters.back().contiguous();
      parameters.pop_back();
      typed(state).forward(state, hidden, parameters);
    }
    variable_list result = typed(state).backward(state, gradients[0].contiguous(), parameters,
                                                 context->needs_input_grad(0));
    // The graph lives on until its first layer is done; what this one kept need not.
    state.record = {};
    state.input.reset();
    result.emplace_back();  // the state
    return result;
  }
};

}  // namespace

std::shared_ptr<CpuLayerContext> make_cpu_layer_context(const EncoderConfig& config,
                                                        at::ScalarType compute) {
  if (config.hidden_size % 32 != 0 || config.intermediate_size % 32 != 0) return nullptr;
  const kernels::Isa isa = kernels::best_isa();
  if (!has_cpu_products(compute)) return nullptr;
  if (compute == at::kFloat) return std::make_shared<TypedContext<float>>(config, isa);
  return std::make_shared<TypedContext<BFloat16>>(config, isa);
}

LayerRows cpu_layer(const LayerRows& input, const std::vector<at::Tensor>& parameters,
                    const PackedTokens& batch, const std::shared_ptr<CpuLayerContext>& context,
                    const ForwardOptions& options, const at::Tensor& firsts) {
  auto state = c10::make_intrusive<LayerState>();
  state->context = context;
  state->offsets = batch.offsets;
  state->tokens = batch.tokens();
  state->firsts = firsts;
  state->checkpoint = options.checkpoint_layers;
  state->of_shares = drawn_dropout(options.attention_dropout, options.generator);
  state->of_attended = drawn_dropout(options.hidden_dropout, options.generator);
  state->of_wide = drawn_dropout(options.hidden_dropout, options.generator);
  state->longest_document = longest(batch.offsets, 0, std::ssize(batch.offsets) - 1);
  state->input = input.rounded;
  const variable_list outputs =
      LayerFunction::apply(input.hidden, at::TensorList(parameters), state);
  return {outputs[0], outputs[1]};
}

}  // namespace gpuhpc
