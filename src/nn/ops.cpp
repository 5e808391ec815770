#include <gpuhpc/nn/ops.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <gpuhpc/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "cpu_products.hpp"

namespace gpuhpc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// fp32 weights and biases of products that share their input.
struct Joined {
  at::ScalarType type;  // of the products
  std::vector<at::Tensor> weights, biases;
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> result;
    for (const at::Tensor& weight : weights) result.push_back(weight.size(0));
    return result;
  }
};

// The products on LibTorch's operators: one joined matrix in the compute type, whose cast copy
// backward uses.
struct LibTorchProducts {
  static at::Tensor joined(const std::vector<at::Tensor>& parts, at::ScalarType type) {
    std::vector<at::Tensor> cast;
    for (const at::Tensor& part : parts) cast.push_back(part.to(type));
    return cast.size() == 1 ? cast[0] : at::cat(cast);
  }
  static at::Tensor forward(const Joined& linears, const at::Tensor& input,
                            const at::Tensor& weight) {
    if (linears.biases.empty())
      return at::mm(product_operand(input), product_operand(weight).t()).to(linears.type);
    const at::Tensor bias = joined(linears.biases, linears.type);
    return at::addmm(product_operand(bias), product_operand(input), product_operand(weight).t())
        .to(linears.type);
  }
};

// The products on this room's packed kernels, where they are faster and fit.
struct PackedProducts {
  static bool fit(const Joined& linears, const at::Tensor& x) {
    constexpr std::int64_t fewest = 32;  // rows that are worth packing a matrix for
    if (!x.is_cpu() || x.size(0) < fewest || !has_cpu_products(linears.type)) return false;
    return std::all_of(linears.weights.begin(), linears.weights.end(), [](const at::Tensor& w) {
      return w.scalar_type() == at::kFloat && w.is_contiguous() && w.size(0) % 32 == 0 &&
             w.size(1) % 32 == 0;
    });
  }
  // x in that type, with the rows that kernels may touch behind the last; those of fp32 do not.
  static at::Tensor padded(const at::Tensor& x, at::ScalarType type) {
    if (type == at::kFloat) return x.to(type).contiguous();
    at::Tensor copy = at::empty({padded_rows(x.size(0)), x.size(1)}, x.options().dtype(type));
    copy.narrow(0, 0, x.size(0)).copy_(x);
    return copy;
  }
  template <typename Body>
  static auto with_products(at::ScalarType type, const Body& body) {
    if (type == at::kFloat) return body(CpuProducts<float>(kernels::best_isa()));
    return body(CpuProducts<kernels::BFloat16>(kernels::best_isa()));
  }
  static at::Tensor forward(const Joined& linears, const at::Tensor& input, std::int64_t rows) {
    const Linears all{linears.weights, linears.biases};
    // Attention reads whole blocks of rows: room for them behind the last, in fp32 too.
    const at::Tensor out = at::empty({padded_rows(rows), all.outputs()}, input.options());
    with_products(linears.type, [&](auto&& products) { products.linear(input, all, rows, out); });
    return out.narrow(0, 0, rows);
  }
  static at::Tensor of_input(const Joined& linears, const at::Tensor& gradient, std::int64_t rows) {
    const Linears all{linears.weights, {}};
    const at::Tensor out = at::empty({gradient.size(0), all.inputs()}, gradient.options());
    with_products(linears.type,
                  [&](auto&& products) { products.input_product(gradient, all, rows, out); });
    return out.narrow(0, 0, rows);
  }
  static at::Tensor of_weight(at::ScalarType type, const at::Tensor& gradient,
                              const at::Tensor& input, std::int64_t rows) {
    return with_products(
        type, [&](auto&& products) { return products.weight_gradient(gradient, input, rows); });
  }
};

// Inputs: x, then weights, then as many biases or none.
struct JoinedLinear : torch::autograd::Function<JoinedLinear> {
  static Joined parts(at::TensorList parameters, std::int64_t count, std::int64_t compute) {
    const auto linears = static_cast<std::size_t>(count);
    return {static_cast<at::ScalarType>(compute), parameters.slice(0, linears).vec(),
            parameters.slice(linears).vec()};
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, std::int64_t count, std::int64_t compute) {
    const Joined linears = parts(parameters, count, compute);
    const bool packed = PackedProducts::fit(linears, x);
    context->saved_data["sizes"] = linears.sizes();
    context->saved_data["packed"] = packed;
    context->saved_data["compute"] = compute;
    context->saved_data["biased"] = !linears.biases.empty();
    context->saved_data["input_type"] = static_cast<std::int64_t>(x.scalar_type());
    if (packed) {
      const at::Tensor input = PackedProducts::padded(x, linears.type);
      variable_list saved = linears.weights;
      saved.push_back(input);
      context->save_for_backward(saved);
      return PackedProducts::forward(linears, input, x.size(0));
    }
    const at::Tensor input = x.to(linears.type),
                     weight = LibTorchProducts::joined(linears.weights, linears.type);
    context->save_for_backward({weight, input});
    return LibTorchProducts::forward(linears, input, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list weights = context->get_saved_variables();
    const at::Tensor input = weights.back();
    weights.pop_back();
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const auto input_type = static_cast<at::ScalarType>(context->saved_data["input_type"].toInt());
    const bool packed = context->saved_data["packed"].toBool(),
               biased = context->saved_data["biased"].toBool();
    const Joined linears{
        static_cast<at::ScalarType>(context->saved_data["compute"].toInt()), weights, {}};
    const std::int64_t rows = gradients[0].size(0);
    // (T, sum of outs)
    const at::Tensor gradient = packed ? PackedProducts::padded(gradients[0], linears.type)
                                       : gradients[0].to(linears.type).contiguous();
    variable_list result((biased ? 2 : 1) * sizes.size() + 3);
    if (context->needs_input_grad(0))
      result[0] = (packed ? PackedProducts::of_input(linears, gradient, rows)
                          : at::mm(product_operand(gradient), product_operand(weights[0])))
                      .to(input_type);
    if (context->needs_input_grad(1)) {
      const auto of_weights =
          (packed ? PackedProducts::of_weight(linears.type, gradient, input, rows)
                  : at::mm(product_operand(gradient).t(), product_operand(input)).to(at::kFloat))
              .split_with_sizes(sizes);
      std::copy(of_weights.begin(), of_weights.end(), result.begin() + 1);
      if (!biased) return result;
      const auto of_biases =
          gradient.narrow(0, 0, rows).sum(0, false, at::kFloat).split_with_sizes(sizes);
      std::copy(of_biases.begin(), of_biases.end(),
                result.begin() + 1 + static_cast<std::ptrdiff_t>(sizes.size()));
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

at::Tensor product_operand(const at::Tensor& values) {
  const bool slow = values.scalar_type() == at::kHalf ||
                    (values.scalar_type() == at::kBFloat16 && !has_cpu_products(at::kBFloat16));
  return values.is_cpu() && slow ? values.to(at::kFloat) : values;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
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
