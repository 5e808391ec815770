#pragma once
// What a T5 that goes token by token, and ModernBERT, need beside the encoders' kernels
// (encoder_kernels.hpp, whose rules about rows, strides and neighbours hold here too), one table
// per instruction set.
#include <cstdint>

#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc::kernels {

// output = values / sqrt(mean(values^2) + epsilon) * gamma, rounded to T. Values and gamma have
// zeros between `columns` and the next multiple of 32.
template <typename T>
struct RmsNormCall {
  const float* values = nullptr;
  std::int64_t stride = 0, rows = 0, columns = 0;
  const float* gamma = nullptr;
  float epsilon = 0;
  T* output = nullptr;
  std::int64_t output_stride = 0;
};

// Attention of a few queries, each to its own list of keys: softmax(q K^T + bias) V of every head.
template <typename T>
struct CachedAttentionCall {
  const T* query = nullptr;  // (queries, stride), heads side by side
  std::int64_t query_stride = 0, queries = 0;
  std::int64_t heads = 0, head_size = 0;  // a multiple of 32
  // The key that query q reads at place t: head h of it stands at rows[q rows_stride + t] + offset
  // + h head_step, its value value_step behind that.
  const T* const* rows = nullptr;
  std::int64_t rows_stride = 0, keys = 0, offset = 0, head_step = 0, value_step = 0;
  // of place t of head h: bias[h bias_step + t], readable up to round_up(keys, 16); null: none
  const float* bias = nullptr;
  std::int64_t bias_step = 0;
  T* output = nullptr;  // (queries, stride)
  std::int64_t output_stride = 0;
  float* scratch = nullptr;  // round_up(keys, 16)
};

// values *= factors, element by element.
template <typename T>
struct GateCall {
  T* values = nullptr;
  const T* factors = nullptr;
  std::int64_t stride = 0, rows = 0, columns = 0;  // a multiple of 32
};

// Rotary positions (Su et al. 2021, eq. 34, halves instead of pairs): of each head of row r, values
// i and head_size / 2 + i, (x, y), become (x c - y s, y c + x s) with c and s at r head_size / 2 +
// i of the tables.
template <typename T>
struct RotaryCall {
  T* values = nullptr;  // (rows, stride), heads side by side
  std::int64_t stride = 0, rows = 0;
  std::int64_t heads = 0, head_size = 0;  // even
  const float* cosines = nullptr;
  const float* sines = nullptr;  // (rows, head_size / 2)
};

template <typename T>
struct DecoderKernels {
  void (*rms_norm)(const RmsNormCall<T>&) = nullptr;
  void (*attention)(const CachedAttentionCall<T>&) = nullptr;
  void (*gate)(const GateCall<T>&) = nullptr;
  void (*rotary)(const RotaryCall<T>&) = nullptr;
};
template <typename T>
DecoderKernels<T> decoder_kernels(Isa isa);
template <>
DecoderKernels<float> decoder_kernels<float>(Isa isa);
template <>
DecoderKernels<BFloat16> decoder_kernels<BFloat16>(Isa isa);

// A pass over the scores of all words.
struct WordKernels {
  float (*log_sum_exp)(const float* scores, std::int64_t count) = nullptr;
  // The first place from `from` on whose score is above `bound`; `count` when there is none.
  std::int64_t (*next_above)(const float* scores, std::int64_t from, std::int64_t count,
                             float bound) = nullptr;
};
WordKernels word_kernels(Isa isa);

}  // namespace gpuhpc::kernels
