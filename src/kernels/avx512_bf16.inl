#pragma once
// What the AVX-512 BF16 and the AMX kernels share: included inside an anonymous namespace, after
// the target pragma.
#include "avx512_vector.inl"
#include "simd_math.inl"

// x Phi(x) with Phi - 1/2 as an odd polynomial on [-4, 4]: absolute error below 2e-4, a tenth of a
// bf16 step at 1. Several registers in step: the processor's window then always holds independent
// work.
template <int kCount>
inline void gelu_bf16(__m512 (&x)[kCount]) {
  constexpr float kOdd[] = {2.258828324386286e-08F,  -1.5888308553257957e-06F,
                            4.7763955080881715e-05F, -0.0008121880819089711F,
                            0.008763693273067474F,   -0.06455441564321518F,
                            0.397870272397995F};
  __m512 t[kCount], u[kCount], p[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i)
    t[i] = _mm512_max_ps(_mm512_min_ps(x[i], _mm512_set1_ps(4.0F)), _mm512_set1_ps(-4.0F));
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) u[i] = _mm512_mul_ps(t[i], t[i]);
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i)
    p[i] = _mm512_fmadd_ps(_mm512_set1_ps(kOdd[0]), u[i], _mm512_set1_ps(kOdd[1]));
#pragma GCC unroll 8
  for (int j = 2; j < 7; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) p[i] = _mm512_fmadd_ps(p[i], u[i], _mm512_set1_ps(kOdd[j]));
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i)
    x[i] = _mm512_mul_ps(x[i], _mm512_fmadd_ps(p[i], t[i], _mm512_set1_ps(0.5F)));
}

template <Activation kActivation, int kCount>
inline void activate_bf16(__m512 (&x)[kCount]) {
  if constexpr (kActivation == Activation::gelu)
    gelu_bf16(x);
  else
    for (int i = 0; i < kCount; ++i) x[i] = activate(V16{x[i]}, kActivation).v;
}

// 2^x for x <= 0; relative error 8e-5.
inline __m512 power_of_two_bf16(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
  __m512 p = _mm512_set1_ps(0.0780245211428728F);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.22606719596584518F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.695833504704882F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.9999252242655838F));
  return _mm512_scalef_ps(p, x);  // scalef takes floor(x)
}

inline void store_bf16(BFloat16* at, __m512 low, __m512 high) {
  _mm512_storeu_si512(at, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}
inline void store_bf16(BFloat16* at, __m512 value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
}

// 16 scores from token t on; those beyond the document count as lowest.
inline __m512 load_scores(const float* scores, std::int64_t t, std::int64_t tokens) {
  if (t + 16 <= tokens) return _mm512_loadu_ps(scores + t);
  const int left = t < tokens ? static_cast<int>(tokens - t) : 0;
  return _mm512_mask_loadu_ps(_mm512_set1_ps(-1e30F), static_cast<__mmask16>((1U << left) - 1U),
                              scores + t);
}

// One row of scores, `keys` wide (a multiple of 32) of which `tokens` count, to bf16 weights;
// returns their sum.
inline float softmax_row_bf16(const float* scores, BFloat16* weights, std::int64_t tokens,
                              std::int64_t keys, float scale) {
  __m512 highest = load_scores(scores, 0, tokens);
  for (std::int64_t t = 16; t < tokens; t += 16)
    highest = _mm512_max_ps(highest, load_scores(scores, t, tokens));
  const float factor = scale * 1.44269504F;
  const __m512 factors = _mm512_set1_ps(factor),
               top = _mm512_set1_ps(_mm512_reduce_max_ps(highest) * factor);
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t t = 0; t < keys; t += 32) {
    const __m512 a =
        power_of_two_bf16(_mm512_fmsub_ps(load_scores(scores, t, tokens), factors, top));
    const __m512 b =
        power_of_two_bf16(_mm512_fmsub_ps(load_scores(scores, t + 16, tokens), factors, top));
    sum = _mm512_add_ps(sum, _mm512_add_ps(a, b));
    store_bf16(weights + t, a, b);
  }
  return _mm512_reduce_add_ps(sum);
}

// 16 bf16 in the lower halves of dwords; a null row counts as zeros.
inline __m512i widen_row(const BFloat16* row) {
  return row == nullptr
             ? _mm512_setzero_si512()
             : _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)));
}

// Neighbouring rows of 16 bf16 interleaved: (row0[i], row1[i]) pairs.
inline __m512i interleave_rows(const BFloat16* row0, const BFloat16* row1) {
  return _mm512_or_si512(widen_row(row0), _mm512_slli_epi32(widen_row(row1), 16));
}

// out[j] word i = in[i] word j: 16 rows of 16 dwords transposed.
inline void transpose_16x16(__m512i (&rows)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    rows[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    rows[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    rows[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(rows[i], rows[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    rows[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    rows[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    rows[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

// 16 keys from token t on (beyond the document: zeros), dimensions [i, i+32) as pairs: row j of the
// result is pair j of every key.
inline void transpose_keys(const AttentionCall<BFloat16>& call, const BFloat16* key, std::int64_t t,
                           __m512i (&rows)[16]) {
  for (int r = 0; r < 16; ++r)
    rows[r] = t + r < call.tokens ? _mm512_loadu_si512(key + (t + r) * call.qkv_stride)
                                  : _mm512_setzero_si512();
  transpose_16x16(rows);
}
