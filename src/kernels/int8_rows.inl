#pragma once
// What the int8 kernels share: rows of activations to integers, and gelu. Included inside the
// anonymous namespace of a file with int8 kernels, after its target macro.
// Extremes are searched among bits, which keep what is not a number.
#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "simd_math.inl"

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A number is scale * (integer - zero). Rows below 1e-30 count as zeros: reciprocals stay finite.
struct RowScale {
  float scale, inverse = 0, zero = 0;
  RowScale(float range, float steps) : scale(range / steps) {
    if (scale < 1e-30F)
      scale = 0;
    else
      inverse = 1.0F / scale;
  }
};

// Added to numbers below 2^22, this leaves them rounded in the lowest bits.
constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23

// The largest and the smallest bf16 of a row, and 0. As signed integers, bits of positive numbers
// order as these do; as unsigned ones those of negative numbers come last, the smallest at the end.
struct Extremes {
  __m512i highest = {}, lowest = {};
  void take(__m512i x) {
    highest = _mm512_max_epi16(highest, x);
    lowest = _mm512_max_epu16(lowest, x);
  }
  // of integers from 0 to 255
  RowScale scale() const {
    const __m512i high = _mm512_max_epi16(highest, _mm512_slli_epi32(highest, 16)),
                  low = _mm512_max_epu16(lowest, _mm512_slli_epi32(lowest, 16));
    const auto top = static_cast<std::uint32_t>(_mm512_reduce_max_epi32(high)) & 0xffff0000U,
               bottom = static_cast<std::uint32_t>(_mm512_reduce_max_epu32(low)) & 0xffff0000U;
    const float smallest = bottom >> 31 != 0 ? float_of(bottom) : 0.0F;
    RowScale result(float_of(top) - smallest, 255);
    const float rounded = kRounding - smallest * result.inverse;
    result.zero = rounded - kRounding;
    return result;
  }
};

// 32 bf16 to 16-bit integers; `zero` carries kRounding. Bytes are moved by shuffles, not by shifts:
// beside tiles, their unit has less to do.
inline __m512i quantize_pairs(__m512i x, __m512 inverse, __m512 zero) {
  const __m512i up = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
  const __m512 even = _mm512_castsi512_ps(_mm512_maskz_shuffle_epi8(0xccccccccccccccccU, x, up)),
               odd = _mm512_castsi512_ps(
                   _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  return _mm512_mask_shuffle_epi8(_mm512_castps_si512(_mm512_fmadd_ps(even, inverse, zero)),
                                  0xccccccccccccccccU,
                                  _mm512_castps_si512(_mm512_fmadd_ps(odd, inverse, zero)), up);
}

// 64 columns of bf16; beyond `columns` (a multiple of 32) zeros.
struct Columns64 {
  __m512i first, second;
  Columns64(const BFloat16* row, std::int64_t column, std::int64_t columns)
      : first(_mm512_loadu_si512(row + column)),
        second(column + 32 < columns ? _mm512_loadu_si512(row + column + 32)
                                     : _mm512_setzero_si512()) {}
  void widen(Extremes& extremes) const {
    extremes.take(first);
    extremes.take(second);
  }
  // 64 integers from 0 to 255 in the order of the columns
  __m512i quantized(__m512 inverse, __m512 zero) const {
    const __m512i lanes = _mm512_packus_epi16(quantize_pairs(first, inverse, zero),
                                              quantize_pairs(second, inverse, zero));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), lanes);
  }
};

// gelu by parabolas, one for each quarter of [-3.75, 3.75], of the smallest error at Chebyshev's
// points: absolute error below 6e-4, a twentieth of a step of the integers that follow. Their
// coefficients are looked up, since beside tiles only one of two units does floating point.
constexpr float kGelu[3][32] = {
    {2.0231923e-06F, -0.00062413886F, -0.010490404F, -0.04654818F, -0.11925695F, -0.22077088F,
     -0.32557958F,   -0.40272358F,    -0.43080032F,  -0.40644783F, -0.34277761F, -0.26088154F,
     -0.18044895F,   -0.11404201F,    -0.066126697F, 0.0F,         0.0F,         0.0F,
     -0.066126697F,  -0.11404201F,    -0.18044895F,  -0.26088154F, -0.34277761F, -0.40644783F,
     -0.43080032F,   -0.40272358F,    -0.32557958F,  -0.22077088F, -0.11925695F, -0.04654818F,
     -0.010490404F,  -0.00062413886F},
    {0.5F,          0.5077877F,   0.55868143F,  0.67316133F,  0.83930206F,  1.0203567F,
     1.1736856F,    1.2694877F,   1.3000691F,   1.277501F,    1.2239997F,   1.1615713F,
     1.1055241F,    1.0629237F,   1.0344504F,   1.0F,         0.0F,         0.0F,
     -0.034450363F, -0.0629237F,  -0.1055241F,  -0.16157131F, -0.22399974F, -0.27750096F,
     -0.30006906F,  -0.26948771F, -0.17368549F, -0.02035661F, 0.16069797F,  0.32683867F,
     0.44131857F,   0.49221233F},
    {0.39790565F,    0.37368876F,    0.30752781F,    0.21636769F,   0.12129904F,   0.040487595F,
     -0.015626917F,  -0.045382638F,  -0.053709663F,  -0.048480909F, -0.037239347F, -0.025340004F,
     -0.015574769F,  -0.0087417979F, -0.0045113228F, 0.0F,          0.0F,          0.0F,
     -0.0045113228F, -0.0087417979F, -0.015574769F,  -0.025340004F, -0.037239347F, -0.048480909F,
     -0.053709663F,  -0.045382638F,  -0.015626917F,  0.040487595F,  0.12129904F,   0.21636769F,
     0.30752781F,    0.37368876F}};

inline __m512 look_up(const float* table, __m512i index) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), index, _mm512_loadu_ps(table + 16));
}

template <int kCount>
inline void gelu_int8(__m512 (&x)[kCount]) {
  __m512i quarter[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount;
       ++i)  // clamped, then rounded: the number of quarters in the last bits
    quarter[i] = _mm512_castps_si512(_mm512_add_ps(_mm512_range_ps(x[i], _mm512_set1_ps(3.75F), 2),
                                                   _mm512_set1_ps(kRounding / 4)));
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    const __m512 slope =
        _mm512_fmadd_ps(x[i], look_up(kGelu[2], quarter[i]), look_up(kGelu[1], quarter[i]));
    x[i] = _mm512_fmadd_ps(x[i], slope, look_up(kGelu[0], quarter[i]));
  }
}

template <Activation kActivation, int kCount>
inline void activate_int8(__m512 (&x)[kCount]) {
  if constexpr (kActivation == Activation::gelu)
    gelu_int8(x);
  else
    activate_bf16<kActivation>(x);
}
