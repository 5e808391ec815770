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
  const float* start = nullptr;  // as in AttentionCall
  std::int64_t start_stride = 0, start_head = 0;
  float* of_start = nullptr;  // += gradient of `start`, laid out as that is; given with it
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
  // += (columns) result summed over rows: gradient of the bias that `change` holds
  float* of_sums = nullptr;
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

// Operands of bf16 products that change with every step, put into PackedMatrix order
// (packed_matrix.hpp) at memory speed.

// A block of a packed matrix of `packed_rows` rows (K, a multiple of 32): from row first_k (a
// multiple of 32) and panel first_panel on.
template <typename S>
struct PackCall {
  const S* values = nullptr;  // (rows, columns), contiguous
  std::int64_t rows = 0, columns = 0;
  BFloat16* packed = nullptr;
  std::int64_t packed_rows = 0, first_k = 0, first_panel = 0;
};

struct PackingKernels {
  // values (N, K) as model files have weights: element (k, n) = values[n][k]. N and K multiples
  // of 32.
  void (*weight)(const PackCall<float>&) = nullptr;
  // values (K, N): element (k, n) = values[k][n]. N a multiple of 32; rows beyond K up to the next
  // multiple of 32 become zeros.
  void (*weight_rows)(const PackCall<float>&) = nullptr;
  void (*rows)(const PackCall<BFloat16>&) = nullptr;
  // (rows, columns), columns a multiple of 32, turned over in blocks of 32 x 32 one behind the
  // other: element (r, c) goes to result[(c/32 * row_blocks + r/32) * 1024 + c%32 * 32 + r%32].
  // Rows up to the next multiple of 32 become zeros. The result is an input of AccumulateCall:
  // (columns, rows) with input_stride 32, k_step 1024, row_step 1024 row_blocks.
  void (*transpose)(const BFloat16* values, std::int64_t rows, std::int64_t columns,
                    BFloat16* result, std::int64_t row_blocks) = nullptr;
};
PackingKernels packing_kernels(Isa isa);

}  // namespace gpuhpc::kernels
