#pragma once
// Matrix products of a layer's training step on processors; private to room nn. Tensors hold
// padded_rows(T) rows of which T count.
#include <gpuhpc/kernels/encoder_kernels.hpp>
#include <gpuhpc/kernels/training_kernels.hpp>
#include <gpuhpc/nn/encoder_config.hpp>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuhpc {

// The kernels' name of an activation.
kernels::Activation kernel_activation(Activation activation);

// Kernels work on blocks of 32 rows, attention on tiles of 16 from any row: room for both.
inline std::int64_t padded_rows(std::int64_t tokens) { return kernels::round_up(tokens, 32) + 32; }

template <typename T>
inline constexpr at::ScalarType scalar_type = at::kFloat;
template <>
inline constexpr at::ScalarType scalar_type<kernels::BFloat16> = at::kBFloat16;

template <typename T>
T* pointer(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// body(first, last) on blocks of 32 rows, spread over the threads, inside the kernels' scope.
template <typename T, typename Body>
void over_rows(const kernels::EncoderKernels<T>& table, std::int64_t rows, const Body& body) {
  at::parallel_for(0, (rows + 31) / 32, 1, [&](std::int64_t first, std::int64_t last) {
    const kernels::KernelScope<T> scope(table);
    body(first * 32, std::min(last * 32, rows));
  });
}

// A linear with outputs side by side when several weights share the input: weights (out_i, in),
// biases (out_i) or none at all, N = sum of out_i. Sizes are multiples of 32.
struct Linears {
  std::vector<at::Tensor> weights, biases;  // fp32
  std::int64_t inputs() const { return weights[0].size(1); }
  std::int64_t outputs() const;
};

// Products in T (float or BFloat16) on packed operands, sums in fp32 all the way into the
// gradients. The buffers are kept from call to call.
template <typename T>
class CpuProducts {
 public:
  explicit CpuProducts(kernels::Isa isa)
      : table_(kernels::encoder_kernels<T>(isa)), packing_(kernels::packing_kernels<T>(isa)) {}
  const kernels::EncoderKernels<T>& table() const { return table_; }
  void linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens,
              const at::Tensor& out);  // (T,N) = x W^T + b
  void input_gradient(const at::Tensor& g, const Linears& linears, std::int64_t tokens,
                      const at::Tensor& into);  // fp32 (T,in) += g W
  void input_product(const at::Tensor& g, const Linears& linears, std::int64_t tokens,
                     const at::Tensor& out);  // (T,in) = g W
  at::Tensor weight_gradient(const at::Tensor& g, const at::Tensor& x,
                             std::int64_t tokens);  // fp32 (N,in) = g^T x

 private:
  static void shape(kernels::PackedMatrix<T>& packed, std::int64_t rows, std::int64_t columns);
  void multiply(const at::Tensor& x, std::int64_t tokens, const at::Tensor& out);
  void pack_by_rows(const Linears& linears);
  kernels::EncoderKernels<T> table_;
  kernels::PackingKernels<T> packing_;
  kernels::PackedMatrix<T> packed_;
  kernels::AlignedBuffer<T> turned_;
  kernels::AlignedBuffer<float> bias_;
};

// Whether this processor's kernels multiply in that type better than LibTorch.
bool has_cpu_products(at::ScalarType compute);

}  // namespace gpuhpc
