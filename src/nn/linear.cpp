#include <gpuhpc/nn/ops.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <gpuhpc/base/error.hpp>

namespace gpuhpc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a product multiplies. On processors fp16 values go in as fp32: fp16 sums would overflow, and
// few processors have them.
at::Tensor factor(const at::Tensor& values) {
  return values.is_cpu() && values.scalar_type() == at::kHalf ? values.to(at::kFloat) : values;
}

// Inputs: x, then weights, then biases. The products run on one joined matrix in the compute type;
// its cast copy is what backward uses.
struct JoinedLinear : torch::autograd::Function<JoinedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, std::int64_t count, std::int64_t compute) {
    const auto type = static_cast<at::ScalarType>(compute);
    std::vector<at::Tensor> weights, biases;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < count; ++i) {
      weights.push_back(parameters[static_cast<std::size_t>(i)].to(type));
      biases.push_back(parameters[static_cast<std::size_t>(count + i)].to(type));
      sizes.push_back(weights.back().size(0));
    }
    const at::Tensor weight = count == 1 ? weights[0] : at::cat(weights);
    const at::Tensor bias = count == 1 ? biases[0] : at::cat(biases);
    const at::Tensor input = x.to(type);
    context->save_for_backward({input, weight});
    context->saved_data["sizes"] = sizes;
    context->saved_data["input_type"] = static_cast<std::int64_t>(x.scalar_type());
    return at::addmm(factor(bias), factor(input), factor(weight).t()).to(type);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const auto input_type = static_cast<at::ScalarType>(context->saved_data["input_type"].toInt());
    const at::Tensor gradient =
        gradients[0].to(input.scalar_type()).contiguous();  // (T, sum of outs)
    const std::size_t count = sizes.size();
    variable_list result(2 * count + 3);
    if (context->needs_input_grad(0))
      result[0] = at::mm(factor(gradient), factor(weight)).to(input_type);
    if (context->needs_input_grad(1)) {
      const auto of_weights =
          at::mm(factor(gradient).t(), factor(input)).to(at::kFloat).split_with_sizes(sizes);
      const auto of_biases = gradient.sum(0, false, at::kFloat).split_with_sizes(sizes);
      for (std::size_t i = 0; i < count; ++i) {
        result[1 + i] = of_weights[i];
        result[1 + count + i] = of_biases[i];
      }
    }
    return result;
  }
};

at::Tensor apply(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                 const std::vector<at::Tensor>& biases, at::ScalarType compute) {
  std::vector<at::Tensor> parameters = weights;
  parameters.insert(parameters.end(), biases.begin(), biases.end());
  return JoinedLinear::apply(x, at::TensorList(parameters),
                             static_cast<std::int64_t>(weights.size()),
                             static_cast<std::int64_t>(compute));
}

}  // namespace

at::Tensor mixed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::ScalarType compute) {
  return apply(x, {weight}, {bias}, compute);
}

at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases, at::ScalarType compute) {
  return apply(x, weights, biases, compute);
}

at::Tensor seeded_dropout(const at::Tensor& x, double rate,
                          const std::optional<at::Generator>& generator) {
  if (rate <= 0) return x;
  if (!generator) throw internal_error("dropout needs a seeded generator");
  at::Tensor mask =
      at::empty_like(x, x.options().requires_grad(false)).bernoulli_(1 - rate, generator);
  return x * mask.div_(1 - rate);
}

}  // namespace gpuhpc
