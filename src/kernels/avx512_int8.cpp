// int8 with AVX-512 VNNI, whose product takes unsigned activations: 128 is added to them, and 128
// times the sum of a column of weights taken off.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni")

namespace gpuhpc::kernels {
namespace {

#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "fetcher.inl"
#include "int8_rows.inl"
#include "simd_math.inl"

constexpr int kRows = 12;
constexpr std::int64_t kMostColumns = 4096;  // of linear(): no encoder in use is wider

// Rows shifted by 128, and their scales.
struct ShiftedRows {
  alignas(64) std::uint8_t values[kRows][kMostColumns];
  float scales[kRows];
  void set(int row, std::int64_t column, __m512i integers) {
    _mm512_store_si512(values[row] + column, _mm512_xor_si512(integers, _mm512_set1_epi8(-128)));
  }
};

// R rows x 32 columns: acc = a x panel p of the weight from row k on.
template <int R>
inline void multiply(const ShiftedRows& a, const PackedMatrix<Int8>& weight, std::int64_t p,
                     std::int64_t k, std::int64_t k_count, Fetcher& fetcher,
                     __m512i (&acc)[R][2]) {
  __m512i sum0 = _mm512_setzero_si512(), sum1 = _mm512_setzero_si512();
  for (std::int64_t i = k / 64; i < (k + k_count) / 64; ++i) {
    const std::int32_t* sums = weight.sums.data() + i * weight.columns + p * kPanel;
    sum0 = _mm512_sub_epi32(sum0, _mm512_loadu_si512(sums));
    sum1 = _mm512_sub_epi32(sum1, _mm512_loadu_si512(sums + 16));
  }
  for (int r = 0; r < R; ++r) {
    acc[r][0] = _mm512_slli_epi32(sum0, 7);
    acc[r][1] = _mm512_slli_epi32(sum1, 7);
  }
  const Int8* b = weight.panel(p, k);
  for (std::int64_t i = 0; i < k_count; i += 64, b += 2048) {
    fetcher.step();
    for (int quad = 0; quad < 16; ++quad) {
      const __m512i b0 = _mm512_loadu_si512(b + quad * 64),
                    b1 = _mm512_loadu_si512(b + 1024 + quad * 64);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        int four;
        __builtin_memcpy(&four, a.values[r] + i + 4 * quad, sizeof four);
        const __m512i x = _mm512_set1_epi32(four);
        acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], x, b0);
        acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], x, b1);
      }
    }
  }
}

// start + sums * scale of the row * scales of the columns
inline __m512 scaled(__m512i sums, float row, const float* columns, __m512 start) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums),
                         _mm512_mul_ps(_mm512_set1_ps(row), _mm512_loadu_ps(columns)), start);
}

template <Activation kActivation, int R>
void linear_rows(const LinearCall<BFloat16, Int8>& call, std::int64_t row, ShiftedRows& rows,
                 Fetcher& fetcher) {
  const PackedMatrix<Int8>& weight = *call.weight;
  for (int r = 0; r < R; ++r) {
    const Int8* input = call.input + (row + r) * call.input_stride;
    for (std::int64_t k = 0; k < weight.panel_rows(); k += 64)
      rows.set(r, k, _mm512_loadu_si512(input + k));
    __builtin_memcpy(&rows.scales[r], scale_of_row(input, call.input_stride), sizeof(float));
  }
  for (std::int64_t p = 0; p < call.panels; ++p) {
    __m512i acc[R][2];
    multiply<R>(rows, weight, call.first_panel + p, 0, weight.panel_rows(), fetcher, acc);
    const float* scales = weight.scales.data() + (call.first_panel + p) * kPanel;
    const float* bias = call.bias + (call.first_panel + p) * kPanel;
    BFloat16* output = call.output + row * call.output_stride + p * kPanel;
    for (int r = 0; r < R; ++r) {
      __m512 x[2];
      for (int i = 0; i < 2; ++i)
        x[i] = scaled(acc[r][i], rows.scales[r], scales + 16 * i, _mm512_loadu_ps(bias + 16 * i));
      activate_bf16<kActivation>(x);
      store_bf16(output + r * call.output_stride, x[0], x[1]);
    }
  }
}

// One row of bf16 to integers.
inline void quantize_row(const BFloat16* input, std::int64_t columns, int row, ShiftedRows& rows) {
  __m512i sizes = _mm512_setzero_si512();
  for (std::int64_t k = 0; k < columns; k += 64)
    sizes = _mm512_max_epu16(sizes, Columns64(input, k, columns).sizes());
  const RowScale scale(largest_size(sizes));
  rows.scales[row] = scale.scale;
  for (std::int64_t k = 0; k < columns; k += 64)
    rows.set(row, k, Columns64(input, k, columns).quantized(_mm512_set1_ps(scale.inverse)));
}

template <int R>
void accumulate_rows(const AccumulateCall<BFloat16, Int8>& call, std::int64_t row,
                     ShiftedRows& rows, Fetcher& fetcher) {
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t piece = int8_piece(weight.rows), panels = panels_of(call);
  for (std::int64_t k = 0; k < weight.rows; k += piece) {
    const std::int64_t depth = weight.rows - k < piece ? weight.rows - k : piece;
    for (int r = 0; r < R; ++r)
      quantize_row(call.input + (row + r) * call.input_stride + k, depth, r, rows);
    for (std::int64_t p = 0; p < panels; ++p) {
      const float* scales = weight.scales.data() + (call.first_panel + p) * kPanel;
      __m512i acc[R][2];
      multiply<R>(rows, weight, call.first_panel + p, k, round_up(depth, 64), fetcher, acc);
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i) {
          float* to = call.output + (row + r) * call.output_stride + p * kPanel + 16 * i;
          const __m512 start =
              call.overwrite && k == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(to);
          _mm512_storeu_ps(to, scaled(acc[r][i], rows.scales[r], scales + 16 * i, start));
        }
    }
  }
}

template <Activation kActivation, int R>
void linear_rest(const LinearCall<BFloat16, Int8>& call, std::int64_t row, ShiftedRows& rows,
                 Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (call.rows - row == R)
      linear_rows<kActivation, R>(call, row, rows, fetcher);
    else
      linear_rest<kActivation, R - 1>(call, row, rows, fetcher);
  }
}
template <int R>
void accumulate_rest(const AccumulateCall<BFloat16, Int8>& call, std::int64_t row,
                     ShiftedRows& rows, Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (call.rows - row == R)
      accumulate_rows<R>(call, row, rows, fetcher);
    else
      accumulate_rest<R - 1>(call, row, rows, fetcher);
  }
}

template <typename Call>
inline std::int64_t steps_of(const Call& call) {
  return (call.rows + kRows - 1) / kRows * panels_of(call) * (call.weight->panel_rows() / 64);
}

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16, Int8>& call) {
  ShiftedRows rows;
  Fetcher fetcher(call.next, steps_of(call));
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows)
    linear_rows<kActivation, kRows>(call, row, rows, fetcher);
  linear_rest<kActivation, kRows - 1>(call, row, rows, fetcher);
}

void linear(const LinearCall<BFloat16, Int8>& call) {
  if (call.weight->panel_rows() > kMostColumns) {
    EncoderKernels<BFloat16, Int8> plain;
    set_generic(plain);
    return plain.linear(call);
  }
  with_activation(call.activation,
                  [&]<Activation kActivation> { linear_activated<kActivation>(call); });
}

void accumulate(const AccumulateCall<BFloat16, Int8>& call) {
  ShiftedRows rows;
  Fetcher fetcher(call.next, steps_of(call));
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows) accumulate_rows<kRows>(call, row, rows, fetcher);
  accumulate_rest<kRows - 1>(call, row, rows, fetcher);
}

// 16 columns of a row, normalised.
struct Normalised {
  const LayerNormCall<Int8>& call;
  const float* values;
  __m512 mean, factor;

  __mmask16 mask(std::int64_t i) const {
    return static_cast<__mmask16>(i + 16 <= call.columns ? 0xffffU
                                                         : (1U << (call.columns - i)) - 1U);
  }
  __m512 at(std::int64_t i) const {
    const __m512 x = _mm512_maskz_loadu_ps(mask(i), values + i);
    return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_sub_ps(x, mean), factor),
                           _mm512_maskz_loadu_ps(mask(i), call.gamma + i),
                           _mm512_maskz_loadu_ps(mask(i), call.beta + i));
  }
};

// Twice over a row: the largest size must be known before its first integer.
void layer_norm(const LayerNormCall<Int8>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    float* values = call.values + r * call.stride;
    Int8* output = call.output + r * call.output_stride;
    const auto [mean, factor] = row_statistics<V16>(call, values);
    const Normalised row{call, values, _mm512_set1_ps(mean), _mm512_set1_ps(factor)};
    __m512i sizes = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < call.columns; i += 16)
      sizes = _mm512_max_epu32(sizes, _mm512_castps_si512(_mm512_abs_ps(row.at(i))));
    const RowScale scale(float_of(_mm512_reduce_max_epu32(sizes)));
    const __m512 inverse = _mm512_set1_ps(scale.inverse);
    for (std::int64_t i = 0; i < call.columns; i += 16) {
      const __m512 x = row.at(i);
      _mm512_mask_cvtsepi32_storeu_epi8(output + i, row.mask(i),
                                        _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse)));
      if (call.keep) continue;
      const __m512 bias = call.next_bias == nullptr
                              ? _mm512_setzero_ps()
                              : _mm512_maskz_loadu_ps(row.mask(i), call.next_bias + i);
      _mm512_mask_storeu_ps(values + i, row.mask(i), _mm512_add_ps(x, bias));
    }
    __builtin_memcpy(scale_of_row(output, call.output_stride), &scale.scale, sizeof scale.scale);
  }
}

}  // namespace

void set_avx512_bf16(EncoderKernels<BFloat16, Int8>& kernels) {
  kernels.linear = linear;
  kernels.accumulate = accumulate;
  kernels.layer_norm = layer_norm;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
