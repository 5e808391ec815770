#include <gpuhpc/nn/ops.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <gpuhpc/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace gpuhpc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a product multiplies. On processors fp16 values go in as fp32: fp16 sums would overflow, and
// few processors have them.
at::Tensor factor(const at::Tensor& values) {
  return values.is_cpu() && values.scalar_type() == at::kHalf ? values.to(at::kFloat) : values;
}

// Inputs: x, then weights, then as many biases or none. The products run on one joined matrix in
// the compute type; its cast copy is what backward uses.
struct JoinedLinear : torch::autograd::Function<JoinedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, std::int64_t count, std::int64_t compute) {
    const auto type = static_cast<at::ScalarType>(compute);
    const auto linears = static_cast<std::size_t>(count);
    const auto joined = [&](at::TensorList parts) {
      std::vector<at::Tensor> cast;
      for (const at::Tensor& part : parts) cast.push_back(part.to(type));
      return count == 1 ? cast[0] : at::cat(cast);
    };
    std::vector<std::int64_t> sizes;
    for (const at::Tensor& weight : parameters.slice(0, linears)) sizes.push_back(weight.size(0));
    const at::Tensor input = x.to(type), weight = joined(parameters.slice(0, linears));
    context->save_for_backward({input, weight});
    context->saved_data["sizes"] = sizes;
    context->saved_data["biased"] = parameters.size() > linears;
    context->saved_data["input_type"] = static_cast<std::int64_t>(x.scalar_type());
    if (parameters.size() == linears) return at::mm(factor(input), factor(weight).t()).to(type);
    const at::Tensor bias = joined(parameters.slice(linears));
    return at::addmm(factor(bias), factor(input), factor(weight).t()).to(type);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const auto input_type = static_cast<at::ScalarType>(context->saved_data["input_type"].toInt());
    // (T, sum of outs)
    const at::Tensor gradient = gradients[0].to(input.scalar_type()).contiguous();
    const std::size_t count = sizes.size();
    const bool biased = context->saved_data["biased"].toBool();
    variable_list result((biased ? 2 : 1) * count + 3);
    if (context->needs_input_grad(0))
      result[0] = at::mm(factor(gradient), factor(weight)).to(input_type);
    if (context->needs_input_grad(1)) {
      const auto of_weights =
          at::mm(factor(gradient).t(), factor(input)).to(at::kFloat).split_with_sizes(sizes);
      std::copy(of_weights.begin(), of_weights.end(), result.begin() + 1);
      if (!biased) return result;
      const auto of_biases = gradient.sum(0, false, at::kFloat).split_with_sizes(sizes);
      std::copy(of_biases.begin(), of_biases.end(), result.begin() + 1 + sizes.size());
    }
    return result;
  }
};

}  // namespace

at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases, at::ScalarType compute) {
  std::vector<at::Tensor> parameters = weights;
  parameters.insert(parameters.end(), biases.begin(), biases.end());
  return JoinedLinear::apply(x, at::TensorList(parameters),
                             static_cast<std::int64_t>(weights.size()),
                             static_cast<std::int64_t>(compute));
}

at::Tensor mixed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::ScalarType compute) {
  return joined_linear(x, {weight}, bias.defined() ? std::vector{bias} : std::vector<at::Tensor>{},
                       compute);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

at::Tensor seeded_dropout(const at::Tensor& x, double rate,
                          const std::optional<at::Generator>& generator) {
  if (rate <= 0) return x;
  if (!generator) throw internal_error("dropout needs a seeded generator");
  at::Tensor mask =
      at::empty_like(x, x.options().requires_grad(false)).bernoulli_(1 - rate, generator);
  return x * mask.div_(1 - rate);
}

at::Tensor unit_rows(const at::Tensor& rows) {
  return rows / at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}, true).clamp_min(1e-12);
}

at::Generator make_generator(at::Device device, std::uint64_t seed) {
  at::Generator generator = device.is_cpu() ? at::detail::createCPUGenerator(seed)
                                            : at::globalContext()
                                                  .getAcceleratorHooksInterface(device.type())
                                                  .getNewGenerator(device.index());
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
  return generator;
}

void initialise(const std::vector<NamedParameter>& parameters,
                const std::function<double(const std::string& name)>& deviation,
                std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = make_generator(at::kCPU, seed);
  for (const auto& [name, value] : parameters) {
    if (value.dim() > 1)
      value.copy_(at::empty(value.sizes(), at::kFloat).normal_(0, deviation(name), generator));
    else
      value.fill_(name.ends_with("weight") ? 1 : 0);
  }
}

double T5Sizes::deviation(const std::string& name) const {
  const auto is = [&](const char* part) { return name.ends_with(std::string(part) + ".weight"); };
  const std::int64_t inputs = is(".q")                        ? hidden * head_size
                              : is(".o")                      ? heads * head_size
                              : is("wo")                      ? intermediate
                              : is("shared") || is("lm_head") ? 1
                                                              : hidden;
  return factor / std::sqrt(static_cast<double>(inputs));
}

}  // namespace gpuhpc
