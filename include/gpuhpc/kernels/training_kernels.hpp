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

// Dropout (Srivastava et al. 2014) whose random numbers belong to places, so that the backward pass
// and a layer computed again draw what the forward pass drew: an element is decided by 16 bits of
// an output of Squares (Widynski 2020, arXiv:2004.06278), four elements an output. Every level of
// instructions draws the same.
struct Dropout {
  std::uint64_t key = 0;        // of one use in one forward pass; any value
  std::uint64_t first = 0;      // counter of a call's first element
  std::uint32_t threshold = 0;  // elements whose 16 bits lie below are dropped; 0: none
  float scale = 1;              // what stays is multiplied by
};
// `rate` in [0, 1), to the nearest 1/65536. The key is spread, so neighbouring ones serve too.
Dropout make_dropout(double rate, std::uint64_t key);
// Counters that `rows` rows of `columns` take; element (r, c) of a call is decided by 16 bits of
// counter first + dropout_counters(r, columns) + c / 4.
inline std::uint64_t dropout_counters(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::uint64_t>(rows * (round_up(columns, 32) / 4));
}

// softmax(...) V with elements of the softmax dropped: that of query q and key k of a head is
// element (head * tokens + q, k). `scratch` holds attention_gradient_scratch_bytes().
template <typename T>
struct DroppedAttentionCall {
  AttentionCall<T> attention;
  Dropout dropout;
};

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
  Dropout dropout = {};       // as in DroppedAttentionCall: dP and the P of dV are dropped likewise
};
std::int64_t attention_gradient_scratch_bytes(std::int64_t tokens, std::int64_t head_size);

// n = normalised(residual + dropped change), output = n gamma + beta (Ba et al. 2016), its rounded
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
  Dropout dropout = {};
};

template <typename T>
struct AddNormGradientCall {
  const float* gradient = nullptr;  // of output (rows, columns)
  const float* normalised = nullptr;
  const float* factors = nullptr;
  const float* gamma = nullptr;
  std::int64_t rows = 0, columns = 0;
  float* result = nullptr;    // gradient of residual; may be `gradient`
  T* rounded = nullptr;       // the same, dropped: gradient of change
  float* of_gamma = nullptr;  // += (columns)
  float* of_beta = nullptr;   // += (columns)
  // += (columns) gradient of change summed over rows: that of the bias that `change` holds
  float* of_sums = nullptr;
  Dropout dropout = {};
};

// output = activation(input).
template <typename T>
struct ActivationCall {
  const T* input = nullptr;  // (rows, columns)
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::none;
  T* output = nullptr;
};

// result = gradient * activation'(input).
template <typename T>
struct ActivationGradientCall {
  const T* input = nullptr;
  const T* gradient = nullptr;
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::none;
  T* result = nullptr;       // may be `gradient`
  float* of_sums = nullptr;  // += (columns)
};

template <typename T>
struct ColumnSumsCall {
  const T* values = nullptr;
  std::int64_t rows = 0, columns = 0;
  float* sums = nullptr;  // += (columns)
};

template <typename T>
struct TrainingKernels {
  void (*dropped_attention)(const DroppedAttentionCall<T>&) = nullptr;
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

// Operands of products that change with every step, put into PackedMatrix order
// (packed_matrix.hpp) at memory speed.

// A block of a packed matrix of `packed_rows` rows (K, a multiple of 32): from row first_k (a
// multiple of 32) and panel first_panel on.
template <typename S, typename T>
struct PackCall {
  const S* values = nullptr;  // (rows, columns), contiguous
  std::int64_t rows = 0, columns = 0;
  T* packed = nullptr;
  std::int64_t packed_rows = 0, first_k = 0, first_panel = 0;
};

// Turned rows as the input of an AccumulateCall with these steps.
struct Turned {
  std::int64_t input_stride = 0, k_step = 0, row_step = 0;
  std::int64_t place(std::int64_t row, std::int64_t column) const {
    return column / 32 * (row_step > 0 ? row_step : 32 * input_stride) +
           column % 32 * input_stride + row / 32 * k_step + row % 32;
  }
};
// Of at most `rows` rows. bf16: blocks of 32 x 32 one behind the other, as tiles are loaded; fp32:
// plain rows, an odd number of cache lines apart, to use all of the cache's sets.
template <typename T>
Turned turned(std::int64_t rows) {
  const std::int64_t padded = round_up(rows, 32);
  if constexpr (sizeof(T) == sizeof(float))
    return {padded + 16, 32, 0};
  else
    return {32, 1024, 32 * padded};
}

template <typename T>
struct PackingKernels {
  // values (N, K) as model files have weights: element (k, n) = values[n][k]. N and K multiples
  // of 32.
  void (*weight)(const PackCall<float, T>&) = nullptr;
  // values (K, N): element (k, n) = values[k][n]. N a multiple of 32; rows beyond K up to the next
  // multiple of 32 become zeros.
  void (*weight_rows)(const PackCall<float, T>&) = nullptr;
  void (*rows)(const PackCall<T, T>&) = nullptr;
  // (rows, columns), columns a multiple of 32, turned over: element (r, c) goes to
  // result[layout.place(r, c)]. Rows up to the next multiple of 32 become zeros.
  void (*transpose)(const T* values, std::int64_t rows, std::int64_t columns, T* result,
                    const Turned& layout) = nullptr;
};
template <typename T>
PackingKernels<T> packing_kernels(Isa isa);
template <>
PackingKernels<float> packing_kernels<float>(Isa isa);
template <>
PackingKernels<BFloat16> packing_kernels<BFloat16>(Isa isa);

}  // namespace gpuhpc::kernels
