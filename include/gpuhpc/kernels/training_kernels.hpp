#pragma once
// What training an encoder on a processor needs beside matrix products: the backward pass of
// attention, and the elementwise work between products in one pass over memory each. One table of
// functions per instruction set; arithmetic and sums are fp32.
//
// T (float or BFloat16) is the type of the products' inputs and outputs. Rows are contiguous. "+="
// results add up over calls.
#include <cstddef>
#include <cstdint>

#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc::kernels {

// Gradient of AttentionCall inside one document. With P = softmax(scale Q K^T), dP = dO V^T: dS = P
// (dP - rowsum(P dP)), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO. P is computed again, so
// nothing but qkv is kept from the forward pass.
template <typename T>
struct AttentionGradientCall {
  const T* qkv = nullptr;  // as in AttentionCall
  std::int64_t qkv_stride = 0, key_column = 0, value_column = 0;
  std::int64_t tokens = 0, heads = 0, head_size = 0;
  float scale = 1;
  const T* gradient = nullptr;  // of the attention's output (tokens, heads * head_size)
  std::int64_t gradient_stride = 0;
  T* result = nullptr;  // gradient of qkv, same columns
  std::int64_t result_stride = 0;
  std::byte* scratch = nullptr;  // attention_gradient_scratch_bytes(), 64-byte line
};
std::int64_t attention_gradient_scratch_bytes(std::int64_t tokens, std::int64_t head_size);

// n = normalised(residual + change + bias), output = n gamma + beta (Ba et al. 2016), its rounded
// copy, and what the gradient needs.
template <typename T>
struct AddNormCall {
  const float* residual = nullptr;  // (rows, columns)
  const T* change = nullptr;        // (rows, columns)
  std::int64_t rows = 0, columns = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
  float* output = nullptr;      // (rows, columns)
  T* rounded = nullptr;         // (rows, columns)
  float* normalised = nullptr;  // (rows, columns)
  float* factors = nullptr;     // (rows) 1 / standard deviation
  const float* bias = nullptr;  // (columns); null: none
};

template <typename T>
struct AddNormGradientCall {
  const float* gradient = nullptr;  // of output (rows, columns)
  const T* more = nullptr;          // of rounded; null: none
  const float* normalised = nullptr;
  const float* factors = nullptr;
  const float* gamma = nullptr;
  std::int64_t rows = 0, columns = 0;
  float* result = nullptr;    // gradient of residual; may be `gradient`
  T* rounded = nullptr;       // the same, gradient of change
  float* of_gamma = nullptr;  // += (columns)
  float* of_beta = nullptr;   // += (columns)
  float* of_sums =
      nullptr;  // += (columns) result summed over rows: gradient of the bias that `change` holds
};

// output = activation(input + bias).
template <typename T>
struct ActivationCall {
  const T* input = nullptr;  // (rows, columns)
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::none;
  T* output = nullptr;
  const float* bias = nullptr;  // (columns); null: none
};

// result = gradient * activation'(input + bias).
template <typename T>
struct ActivationGradientCall {
  const T* input = nullptr;
  const T* gradient = nullptr;
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::none;
  T* result = nullptr;          // may be `gradient`
  float* of_sums = nullptr;     // += (columns)
  const float* bias = nullptr;  // (columns); null: none
};

template <typename T>
struct ColumnSumsCall {
  const T* values = nullptr;
  std::int64_t rows = 0, columns = 0;
  float* sums = nullptr;  // += (columns)
};

template <typename T>
struct TrainingKernels {
  void (*attention_gradient)(const AttentionGradientCall<T>&) = nullptr;
  void (*add_norm)(const AddNormCall<T>&) = nullptr;
  void (*add_norm_gradient)(const AddNormGradientCall<T>&) = nullptr;
  void (*activation)(const ActivationCall<T>&) = nullptr;
  void (*activation_gradient)(const ActivationGradientCall<T>&) = nullptr;
  void (*column_sums)(const ColumnSumsCall<T>&) = nullptr;
};

// The best kernels of that level; what a level does not have comes from the levels below.
// attention_gradient needs the KernelScope of encoder_kernels<T>(isa) around it. Throws
// configuration_error when the machine does not have the level.
template <typename T>
TrainingKernels<T> training_kernels(Isa isa);
template <>
TrainingKernels<float> training_kernels<float>(Isa isa);
template <>
TrainingKernels<BFloat16> training_kernels<BFloat16>(Isa isa);

}  // namespace gpuhpc::kernels
