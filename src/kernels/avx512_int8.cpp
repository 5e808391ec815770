// int8 with AVX-512 VNNI, whose product takes unsigned activations: linear() adds 128 to its signed
// ones, and takes off 128 times the sum of a column of weights.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni")

namespace gpuhpc::kernels {
namespace {

#include "fetcher.inl"
#include "int8_rows.inl"

constexpr int kRows = 12;
constexpr std::int64_t kMostColumns = 4096;  // of a row: no encoder in use is wider

// Rows of unsigned integers, and their scales.
struct UnsignedRows {
  alignas(64) std::uint8_t values[kRows][kMostColumns];
  float scales[kRows], zeros[kRows];  // zeros: what integers of 0 stand for
};

// Sums of a panel's columns over k_count rows from k on.
struct ColumnSums {
  __m512i halves[2];
  ColumnSums(const PackedMatrix<Int8>& weight, std::int64_t p, std::int64_t k,
             std::int64_t k_count) {
    halves[0] = halves[1] = _mm512_setzero_si512();
    for (std::int64_t i = k / 64; i < (k + k_count) / 64; ++i)
      for (int half = 0; half < 2; ++half)
        halves[half] = _mm512_add_epi32(
            halves[half],
            _mm512_loadu_si512(weight.sums.data() + i * weight.columns + p * kPanel + 16 * half));
  }
};

// R rows x 32 columns: acc += a x panel p of the weight from row k on.
template <int R>
inline void multiply(const UnsignedRows& a, const PackedMatrix<Int8>& weight, std::int64_t p,
                     std::int64_t k, std::int64_t k_count, Fetcher& fetcher, __m512i (&acc)[R][2]) {
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
void linear_rows(const LinearCall<BFloat16, Int8>& call, std::int64_t row, UnsignedRows& rows,
                 Fetcher& fetcher) {
  const PackedMatrix<Int8>& weight = *call.weight;
  for (int r = 0; r < R; ++r) {
    const Int8* input = call.input + (row + r) * call.input_stride;
    for (std::int64_t k = 0; k < weight.panel_rows(); k += 64)
      _mm512_store_si512(rows.values[r] + k,
                         _mm512_xor_si512(_mm512_loadu_si512(input + k), _mm512_set1_epi8(-128)));
    __builtin_memcpy(&rows.scales[r], scale_of_row(input, call.input_stride), sizeof(float));
  }
  for (std::int64_t p = 0; p < call.panels; ++p) {
    const ColumnSums sums(weight, call.first_panel + p, 0, weight.panel_rows());
    __m512i acc[R][2];
    for (int r = 0; r < R; ++r)  // minus 128 times the sums
      for (int i = 0; i < 2; ++i)
        acc[r][i] = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sums.halves[i]), 7);
    multiply<R>(rows, weight, call.first_panel + p, 0, weight.panel_rows(), fetcher, acc);
    const float* scales = weight.scales.data() + (call.first_panel + p) * kPanel;
    const float* bias = call.bias + (call.first_panel + p) * kPanel;
    BFloat16* output = call.output + row * call.output_stride + p * kPanel;
    for (int r = 0; r < R; ++r) {
      __m512 x[2];
      for (int i = 0; i < 2; ++i)
        x[i] = scaled(acc[r][i], rows.scales[r], scales + 16 * i, _mm512_loadu_ps(bias + 16 * i));
      activate_int8<kActivation>(x);
      store_bf16(output + r * call.output_stride, x[0], x[1]);
    }
  }
}

// One row of bf16 to integers.
inline void quantize_row(const BFloat16* input, std::int64_t columns, int row, UnsignedRows& rows) {
  Extremes extremes;
  for (std::int64_t k = 0; k < columns; k += 64) Columns64(input, k, columns).widen(extremes);
  const RowScale scale = extremes.scale();
  rows.scales[row] = scale.scale;
  rows.zeros[row] = -scale.scale * scale.zero;
  const __m512 inverse = _mm512_set1_ps(scale.inverse),
               zero = _mm512_set1_ps(kRounding + scale.zero);
  for (std::int64_t k = 0; k < columns; k += 64)
    _mm512_store_si512(rows.values[row] + k, Columns64(input, k, columns).quantized(inverse, zero));
}

template <int R>
void accumulate_rows(const AccumulateCall<BFloat16, Int8>& call, std::int64_t row,
                     UnsignedRows& rows, Fetcher& fetcher) {
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t piece = int8_piece(weight.rows), panels = panels_of(call);
  for (std::int64_t k = 0; k < weight.rows; k += piece) {
    const std::int64_t depth = weight.rows - k < piece ? weight.rows - k : piece;
    for (int r = 0; r < R; ++r)
      quantize_row(call.input + (row + r) * call.input_stride + k, depth, r, rows);
    for (std::int64_t p = 0; p < panels; ++p) {
      const float* scales = weight.scales.data() + (call.first_panel + p) * kPanel;
      const ColumnSums sums(weight, call.first_panel + p, k, round_up(depth, 64));
      __m512 totals[2];
      for (int i = 0; i < 2; ++i)
        totals[i] =
            _mm512_mul_ps(_mm512_cvtepi32_ps(sums.halves[i]), _mm512_loadu_ps(scales + 16 * i));
      __m512i acc[R][2];
      for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_si512();
      multiply<R>(rows, weight, call.first_panel + p, k, round_up(depth, 64), fetcher, acc);
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i) {
          float* to = call.output + (row + r) * call.output_stride + p * kPanel + 16 * i;
          const __m512 start = call.overwrite && k == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(to);
          _mm512_storeu_ps(
              to, scaled(acc[r][i], rows.scales[r], scales + 16 * i,
                         _mm512_fmadd_ps(_mm512_set1_ps(rows.zeros[r]), totals[i], start)));
        }
    }
  }
}

template <Activation kActivation, int R>
void linear_rest(const LinearCall<BFloat16, Int8>& call, std::int64_t row, UnsignedRows& rows,
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
                     UnsignedRows& rows, Fetcher& fetcher) {
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
  UnsignedRows rows;
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
  UnsignedRows rows;
  Fetcher fetcher(call.next, steps_of(call));
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows) accumulate_rows<kRows>(call, row, rows, fetcher);
  accumulate_rest<kRows - 1>(call, row, rows, fetcher);
}

// 16 columns of a row from i on, those from `columns` on as zeros.
inline __mmask16 columns_from(std::int64_t i, std::int64_t columns) {
  return static_cast<__mmask16>(i + 16 <= columns ? 0xffffU : (1U << (columns - i)) - 1U);
}
inline __m512 load(const float* row, std::int64_t i, std::int64_t columns) {
  return i + 16 <= columns ? _mm512_loadu_ps(row + i)
                           : _mm512_maskz_loadu_ps(columns_from(i, columns), row + i);
}

// What becomes integers: written to `results`, the residual stream with its next bias to its place;
// returns the largest size.
inline float normalise(const LayerNormCall<Int8>& call, float* values, float* results) {
  const RowStatistics row = row_statistics<V16>(call, values);
  const __m512 mean = _mm512_set1_ps(row.mean), factor = _mm512_set1_ps(row.factor);
  const std::int64_t columns = call.columns;
  __m512i sizes = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < columns; i += 16) {
    const __m512 x = _mm512_mul_ps(_mm512_sub_ps(load(values, i, columns), mean), factor);
    __m512 result = _mm512_fmadd_ps(x, load(call.gamma, i, columns), load(call.beta, i, columns));
    if (!call.keep) {
      const __m512 biased = call.next_bias == nullptr
                                ? result
                                : _mm512_add_ps(result, load(call.next_bias, i, columns));
      _mm512_mask_storeu_ps(values + i, columns_from(i, columns), biased);
    }
    if (call.shares != nullptr) result = _mm512_mul_ps(result, load(call.shares, i, columns));
    _mm512_store_ps(results + i, result);
    sizes = _mm512_max_epu32(sizes, _mm512_castps_si512(_mm512_abs_ps(result)));
  }
  return float_of(_mm512_reduce_max_epu32(sizes));
}

void layer_norm(const LayerNormCall<Int8>& call) {
  if (call.columns > kMostColumns) {
    EncoderKernels<BFloat16, Int8> plain;
    set_generic(plain);
    return plain.layer_norm(call);
  }
  alignas(64) float results[kMostColumns];
  for (std::int64_t r = 0; r < call.rows; ++r) {
    Int8* const output = call.output + r * call.output_stride;
    const RowScale scale(normalise(call, call.values + r * call.stride, results), kHighestInt8);
    const __m512 inverse = _mm512_set1_ps(scale.inverse);
    for (std::int64_t i = 0; i < call.columns; i += 16)
      _mm512_mask_cvtsepi32_storeu_epi8(
          output + i, columns_from(i, call.columns),
          _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(results + i), inverse)));
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
