#include <immintrin.h>

#include "gpuhpc/kernels/packed_matrix.hpp"
#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace gpuhpc::kernels {
namespace {
#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "simd_math.inl"

// 32 values as bf16; a null pointer counts as zeros.
inline __m512i load_32(const float* p) {
  if (p == nullptr) return _mm512_setzero_si512();
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(_mm512_loadu_ps(p + 16), _mm512_loadu_ps(p)));
}
inline __m512i load_32(const BFloat16* p) {
  return p == nullptr ? _mm512_setzero_si512() : _mm512_loadu_si512(p);
}

// 16 columns x 32 of k at a time: a transposition of 16 x 16 pairs is a tile.
void weight(const PackCall<float, BFloat16>& call) {
  for (std::int64_t n = 0; n < call.rows; n += 16) {
    BFloat16* panel = call.packed +
                      ((call.first_panel + n / kPanel) * call.packed_rows + call.first_k) * kPanel +
                      n % kPanel / 16 * 512;
    for (std::int64_t k = 0; k < call.columns; k += 32) {
      __m512i tile[16];
      for (int r = 0; r < 16; ++r) tile[r] = load_32(call.values + (n + r) * call.columns + k);
      transpose_16x16(tile);
      for (int r = 0; r < 16; ++r) _mm512_storeu_si512(panel + k * kPanel + r * 32, tile[r]);
    }
  }
}

// Two rows of 32 columns interleaved: a row of either tile of a panel.
template <typename S>
void rows_of(const PackCall<S, BFloat16>& call) {
  alignas(64) static constexpr std::uint16_t low[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                        37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                        11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i first = _mm512_load_si512(low),
                second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  const std::int64_t rows = round_up(call.rows, 32);
  for (std::int64_t k = 0; k < rows; k += 2) {
    const S* a = k < call.rows ? call.values + k * call.columns : nullptr;
    const S* b = k + 1 < call.rows ? call.values + (k + 1) * call.columns : nullptr;
    const std::int64_t row = call.first_k + k;
    BFloat16* to = call.packed + (call.first_panel * call.packed_rows + row / 32 * 32) * kPanel +
                   row % 32 / 2 * 32;
    for (std::int64_t n = 0; n < call.columns; n += 32, to += call.packed_rows * kPanel) {
      const __m512i x = load_32(a == nullptr ? a : a + n), y = load_32(b == nullptr ? b : b + n);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, first, y));
      _mm512_storeu_si512(to + 512, _mm512_permutex2var_epi16(x, second, y));
    }
  }
}

void transpose(const BFloat16* values, std::int64_t rows, std::int64_t columns, BFloat16* result,
               const Turned& layout) {
  for (std::int64_t r = 0; r < rows; r += 32)
    for (std::int64_t c = 0; c < columns; c += 32) {
      __m512i upper[16], lower[16];  // 16 rows of 32 columns each
      for (int i = 0; i < 16; ++i) {
        upper[i] = load_32(r + i < rows ? values + (r + i) * columns + c : nullptr);
        lower[i] = load_32(r + 16 + i < rows ? values + (r + 16 + i) * columns + c : nullptr);
      }
      transpose_16x16(upper);
      transpose_16x16(lower);
      BFloat16* block = result + layout.place(r, c);
      for (int j = 0; j < 16; ++j) {  // columns 2j and 2j+1 of 32 rows
        const __m512i even =
            _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(upper[j])),
                               _mm512_cvtepi32_epi16(lower[j]), 1);
        const __m512i odd = _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(upper[j], 16))),
            _mm512_cvtepi32_epi16(_mm512_srli_epi32(lower[j], 16)), 1);
        _mm512_storeu_si512(block + 2 * j * 32, even);
        _mm512_storeu_si512(block + (2 * j + 1) * 32, odd);
      }
    }
}

}  // namespace

void set_avx512_bf16(PackingKernels<BFloat16>& kernels) {
  kernels = {weight, rows_of<float>, rows_of<BFloat16>, transpose};
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
