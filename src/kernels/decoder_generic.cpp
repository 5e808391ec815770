// The decoder's reference twins, and the tables.
#include <algorithm>
#include <cmath>

#include "levels.hpp"
#include "plain.hpp"

namespace gpuhpc::kernels {
namespace {

template <typename T>
void rms_norm(const RmsNormCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const float* values = call.values + r * call.stride;
    double squares = 0;
    for (std::int64_t i = 0; i < call.columns; ++i)
      squares += static_cast<double>(values[i]) * values[i];
    const auto factor = static_cast<float>(
        1 / std::sqrt(squares / static_cast<double>(call.columns) + call.epsilon));
    for (std::int64_t i = 0; i < round_up(call.columns, 32); ++i)
      call.output[r * call.output_stride + i] = from_float<T>(values[i] * factor * call.gamma[i]);
  }
}

template <typename T>
void attention(const CachedAttentionCall<T>& call) {
  for (std::int64_t head = 0; head < call.heads; ++head)
    for (std::int64_t q = 0; q < call.queries; ++q) {
      const T* query = call.query + q * call.query_stride + head * call.head_size;
      const T* const* rows = call.rows + q * call.rows_stride;
      const std::int64_t step = call.offset + head * call.head_step;
      float highest = -INFINITY, total = 0;
      for (std::int64_t t = 0; t < call.keys; ++t) {
        float dot = call.bias == nullptr ? 0.0F : call.bias[head * call.bias_step + t];
        for (std::int64_t i = 0; i < call.head_size; ++i)
          dot += to_float(query[i]) * to_float(rows[t][step + i]);
        call.scratch[t] = dot;
        highest = std::max(highest, dot);
      }
      for (std::int64_t t = 0; t < call.keys; ++t)
        total += call.scratch[t] = std::exp(call.scratch[t] - highest);
      T* output = call.output + q * call.output_stride + head * call.head_size;
      for (std::int64_t i = 0; i < call.head_size; ++i) {
        float sum = 0;
        for (std::int64_t t = 0; t < call.keys; ++t)
          sum += call.scratch[t] * to_float(rows[t][step + call.value_step + i]);
        output[i] = from_float<T>(sum / total);
      }
    }
}

template <typename T>
void gate(const GateCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = r * call.stride; i < r * call.stride + call.columns; ++i)
      call.values[i] = from_float<T>(to_float(call.values[i]) * to_float(call.factors[i]));
}

template <typename T>
void rotary(const RotaryCall<T>& call) {
  const std::int64_t half = call.head_size / 2;
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t head = 0; head < call.heads; ++head)
      for (std::int64_t i = 0; i < half; ++i) {
        T* low = call.values + r * call.stride + head * call.head_size + i;
        const float x = to_float(*low), y = to_float(low[half]), c = call.cosines[r * half + i],
                    s = call.sines[r * half + i];
        *low = from_float<T>(x * c - y * s);
        low[half] = from_float<T>(y * c + x * s);
      }
}

float log_sum_exp(const float* scores, std::int64_t count) {
  const float highest = *std::max_element(scores, scores + count);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += std::exp(static_cast<double>(scores[i]) - highest);
  return static_cast<float>(highest + std::log(sum));
}

std::int64_t next_above(const float* scores, std::int64_t from, std::int64_t count, float bound) {
  while (from < count && !(scores[from] > bound)) ++from;
  return from;
}

template <typename T>
void set_all(DecoderKernels<T>& kernels) {
  kernels = {rms_norm<T>, attention<T>, gate<T>, rotary<T>};
}

}  // namespace

void set_generic(DecoderKernels<float>& kernels) { set_all(kernels); }
void set_generic(DecoderKernels<BFloat16>& kernels) { set_all(kernels); }
void set_generic(WordKernels& kernels) { kernels = {log_sum_exp, next_above}; }

template <>
DecoderKernels<float> decoder_kernels<float>(Isa isa) {
  return best_table<DecoderKernels<float>>(isa);
}
template <>
DecoderKernels<BFloat16> decoder_kernels<BFloat16>(Isa isa) {
  return best_table<DecoderKernels<BFloat16>>(isa);
}
WordKernels word_kernels(Isa isa) { return best_table<WordKernels>(isa); }

}  // namespace gpuhpc::kernels
