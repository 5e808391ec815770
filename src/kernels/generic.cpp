// The reference twins: plain loops, one for each kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "levels.hpp"
#include "plain.hpp"

namespace gpuhpc::kernels {
namespace {

// sums[0:32) += row x panel p of the call; the sum over k runs upwards, whatever was asked for
// beside it.
template <typename T, typename Call>
void multiply_panel(const Call& call, const PackedMatrix<T>& weight, const T* row,
                    std::int64_t k_step, std::int64_t p, float* sums) {
  for (std::int64_t k = 0; k < depth_of(call); ++k) {
    const float x = to_float(row[k / 32 * k_step + k % 32]);
    const T* values = weight.values.data() +
                      packed_index(weight, call.first_k + k, (call.first_panel + p) * kPanel);
    if constexpr (std::is_same_v<T, float>) {
      for (std::int64_t n = 0; n < kPanel; ++n) sums[n] += x * values[n];
    } else {
      for (std::int64_t n = 0; n < kPanel; ++n)
        sums[n] += x * to_float(values[n / 16 * 512 + n % 16 * 2]);
    }
  }
}

Bf16Halves halves_at(const float* row, std::int64_t k) { return split(row[k]); }
Bf16Halves halves_at(const SplitBFloat16* row, std::int64_t k) {
  const BFloat16* at = halves(row) + k / 32 * 64 + k % 32;
  return {at[0], at[kLowOfRow]};
}

template <typename T, typename Call>
void multiply_split_panel(const Call& call, const T* row, std::int64_t k_step, std::int64_t p,
                          float* sums) {
  const PackedMatrix<SplitBFloat16>& weight = *call.weight;
  for (std::int64_t k = 0; k < depth_of(call); ++k) {
    const Bf16Halves x = halves_at(row, k / 32 * k_step + k % 32);
    const float high = to_float(x.high), low = to_float(x.low);
    const BFloat16* values =
        halves(weight.values.data()) +
        packed_index(weight, call.first_k + k, (call.first_panel + p) * kPanel);
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const BFloat16* at = values + n / 16 * 512 + n % 16 * 2;
      sums[n] +=
          (low * to_float(at[0]) + high * to_float(at[kLowOfBlock])) + high * to_float(at[0]);
    }
  }
}
template <typename Call>
void multiply_panel(const Call& call, const PackedMatrix<SplitBFloat16>&, const float* row,
                    std::int64_t k_step, std::int64_t p, float* sums) {
  multiply_split_panel(call, row, k_step, p, sums);
}
template <typename Call>
void multiply_panel(const Call& call, const PackedMatrix<SplitBFloat16>&, const SplitBFloat16* row,
                    std::int64_t k_step, std::int64_t p, float* sums) {
  multiply_split_panel(call, row, k_step, p, sums);
}

// Numbers from the smallest to the largest of a row, and 0, as integers from 0 to 255. A number is
// scale * (integer - zero).
struct UnsignedRow {
  std::vector<std::uint8_t> integers;
  float scale = 0;
  std::int32_t zero = 0;
  UnsignedRow(const BFloat16* from, std::int64_t count)
      : integers(static_cast<std::size_t>(count)) {
    float low = 0, high = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = to_float(from[i]);
      low = std::min(low, value), high = std::max(high, value);
      finite = finite && std::isfinite(value);
    }
    scale = finite ? (high - low) / 255 : NAN;
    if (!(scale > 1e-30F)) {
      if (finite) scale = 0;
      return;
    }
    zero = static_cast<std::int32_t>(std::nearbyint(-low / scale));
    for (std::int64_t i = 0; i < count; ++i)
      integers[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::clamp(
          static_cast<std::int32_t>(std::nearbyint(to_float(from[i]) / scale)) + zero, 0, 255));
  }
};

// `count` numbers as integers, and the scale that they share.
float quantize(const float* from, std::int64_t count, Int8* to) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (std::abs(from[i]) > largest || std::isnan(from[i])) largest = std::abs(from[i]);
  const float scale = largest / kHighestInt8;
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = scale > 0 && std::isfinite(scale)
                ? static_cast<Int8>(
                      std::clamp(std::nearbyint(from[i] / scale), -kHighestInt8, kHighestInt8))
                : Int8{0};
  return std::isfinite(scale) ? scale : NAN;
}

// sums[0:32) += (row[0:depth) - zero) x panel p from row k on, once the integers are added up.
template <typename Integer>
void multiply_integers(const PackedMatrix<Int8>& weight, const Integer* row, std::int32_t zero,
                       float scale, std::int64_t k, std::int64_t depth, std::int64_t p,
                       float* sums) {
  std::int32_t totals[kPanel] = {};
  for (std::int64_t i = 0; i < depth; ++i)
    for (std::int64_t n = 0; n < kPanel; ++n)
      totals[n] +=
          (row[i] - zero) * weight.values.data()[packed_index(weight, k + i, p * kPanel + n)];
  for (std::int64_t n = 0; n < kPanel; ++n)
    sums[n] += static_cast<float>(totals[n]) * (scale * weight.scales.data()[p * kPanel + n]);
}

void multiply_panel(const LinearCall<BFloat16, Int8>& call, const PackedMatrix<Int8>& weight,
                    const Int8* row, std::int64_t, std::int64_t p, float* sums) {
  float scale;
  std::memcpy(&scale, scale_of_row(row, call.input_stride), sizeof scale);
  multiply_integers(weight, row, 0, scale, 0, weight.rows, call.first_panel + p, sums);
}
void multiply_panel(const AccumulateCall<BFloat16, Int8>& call, const PackedMatrix<Int8>& weight,
                    const BFloat16* row, std::int64_t, std::int64_t p, float* sums) {
  const std::int64_t piece = int8_piece(weight.rows);
  for (std::int64_t k = 0; k < weight.rows; k += piece) {
    const std::int64_t depth = std::min(piece, weight.rows - k);
    const UnsignedRow own(row + k, depth);
    multiply_integers(weight, own.integers.data(), own.zero, own.scale, k, depth,
                      call.first_panel + p, sums);
  }
}

template <typename T, typename W>
void linear(const LinearCall<T, W>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t p = 0; p < call.panels; ++p) {
      const float* bias = call.bias + (call.first_panel + p) * kPanel;
      float sums[kPanel] = {};
      multiply_panel(call, *call.weight, call.input + r * call.input_stride, 32, p, sums);
      T* output = call.output + r * call.output_stride + p * kPanel;
      for (std::int64_t n = 0; n < kPanel; ++n)
        output[n] = from_float<T>(activate(sums[n] + bias[n], call.activation));
    }
}

template <typename T, typename W>
void accumulate(const AccumulateCall<T, W>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t p = 0; p < panels_of(call); ++p) {
      float* sums = call.output + r * call.output_stride + p * kPanel;
      if (call.overwrite) std::fill_n(sums, kPanel, 0.0F);
      const T* row = call.row_step == 0
                         ? call.input + r * call.input_stride
                         : call.input + r / 32 * call.row_step + r % 32 * call.input_stride;
      multiply_panel(call, *call.weight, row, call.k_step, p, sums);
    }
}

template <typename T>
void attention(const AttentionCall<T>& call) {
  std::vector<float> scores(static_cast<std::size_t>(call.tokens)),
      sums(static_cast<std::size_t>(call.head_size));
  for (std::int64_t head = 0; head < call.heads; ++head)
    for (std::int64_t q = call.first_query; q < call.last_query(); ++q) {
      const T* query = call.qkv + q * call.qkv_stride + head * call.head_size;
      float highest = -INFINITY, total = 0;
      for (std::int64_t k = 0; k < call.tokens; ++k) {
        const T* key = call.qkv + k * call.qkv_stride + call.key_column + head * call.head_size;
        float dot = call.start == nullptr
                        ? 0.0F
                        : call.start[head * call.start_head + q * call.start_stride + k];
        for (std::int64_t i = 0; i < call.head_size; ++i)
          dot += to_float(query[i]) * to_float(key[i]);
        scores[static_cast<std::size_t>(k)] = dot * call.scale;
        highest = std::max(highest, dot * call.scale);
      }
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::int64_t k = 0; k < call.tokens; ++k) {
        const T* value = call.qkv + k * call.qkv_stride + call.value_column + head * call.head_size;
        const float weight = std::exp(scores[static_cast<std::size_t>(k)] - highest);
        total += weight;
        for (std::int64_t i = 0; i < call.head_size; ++i)
          sums[static_cast<std::size_t>(i)] += to_float(from_float<T>(weight)) * to_float(value[i]);
      }
      T* output = call.output + q * call.output_stride + head * call.head_size;
      for (std::int64_t i = 0; i < call.head_size; ++i)
        output[i] = from_float<T>(sums[static_cast<std::size_t>(i)] / total);
    }
}

void relative_scores(const RelativeScoresCall& call) {
  for (std::int64_t q = 0; q < call.queries; ++q) {
    const std::int32_t* columns = call.columns - q;
    const float* to = call.to_position + q * call.stride;
    for (std::int64_t k = 0; k < call.keys; ++k) {
      const std::int64_t column = columns[k] - call.first_column;
      call.scores[q * call.scores_stride + k] =
          to[column] + call.from_position[k * call.stride + column];
    }
  }
}

template <typename T>
void layer_norm(const LayerNormCall<T>& call) {
  std::vector<float> results;  // of a row
  for (std::int64_t r = 0; r < call.rows; ++r) {
    float* values = call.values + r * call.stride;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < call.columns; ++i) sum += values[i];
    const double mean = sum / static_cast<double>(call.columns);
    for (std::int64_t i = 0; i < call.columns; ++i)
      squares += (values[i] - mean) * (values[i] - mean);
    const double factor =
        1.0 / std::sqrt(squares / static_cast<double>(call.columns) + call.epsilon);
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const float result =
          static_cast<float>((values[i] - mean) * factor) * call.gamma[i] + call.beta[i];
      if constexpr (std::is_same_v<T, SplitBFloat16>) {
        const Bf16Halves both = split(result);
        BFloat16* at = halves(call.output + r * call.output_stride) + i / 32 * 64 + i % 32;
        at[0] = both.high;
        at[kLowOfRow] = both.low;
      } else if constexpr (std::is_same_v<T, Int8>) {
        results.push_back(call.shares != nullptr ? result * call.shares[i] : result);
      } else {
        call.output[r * call.output_stride + i] = from_float<T>(result);
      }
      if (!call.keep) values[i] = result + (call.next_bias != nullptr ? call.next_bias[i] : 0.0F);
    }
    if constexpr (std::is_same_v<T, Int8>) {
      Int8* const output = call.output + r * call.output_stride;
      const float scale = quantize(results.data(), call.columns, output);
      std::memcpy(scale_of_row(output, call.output_stride), &scale, sizeof scale);
      results.clear();
    }
  }
}

template <typename T, typename W>
void set_all(EncoderKernels<T, W>& kernels) {
  kernels.linear = linear<T, W>;
  kernels.accumulate = accumulate<T, W>;
  kernels.attention = attention<T>;
  kernels.relative_scores = relative_scores;
  kernels.layer_norm = layer_norm<W>;
  kernels.begin = [] {};
  kernels.end = [] {};
}

}  // namespace

void set_generic(EncoderKernels<float>& kernels) { set_all(kernels); }
void set_generic(EncoderKernels<BFloat16>& kernels) { set_all(kernels); }
void set_generic(EncoderKernels<float, SplitBFloat16>& kernels) { set_all(kernels); }
void set_generic(EncoderKernels<BFloat16, Int8>& kernels) { set_all(kernels); }

}  // namespace gpuhpc::kernels
