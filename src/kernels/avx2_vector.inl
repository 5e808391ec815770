#pragma once
// One AVX2 register of floats: included inside an anonymous namespace, after the target pragma.
#include "dropout.inl"

struct V8 {
  static constexpr int kWidth = 8, kRows = 6;
  __m256 v;
  static V8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static void store(float* p, V8 a) { _mm256_storeu_ps(p, a.v); }
  static V8 set(float x) { return {_mm256_set1_ps(x)}; }
  static V8 fma(V8 a, V8 b, V8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static V8 max(V8 a, V8 b) { return {_mm256_max_ps(a.v, b.v)}; }
  static V8 min(V8 a, V8 b) { return {_mm256_min_ps(a.v, b.v)}; }
  static V8 abs(V8 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.v)}; }
  static bool any_above(V8 a, V8 b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)) != 0;
  }
  static V8 floor(V8 a) { return {_mm256_floor_ps(a.v)}; }
  static V8 scale_by_power(V8 a, V8 power) {  // power is whole and >= -126
    const __m256i exponent = _mm256_slli_epi32(
        _mm256_add_epi32(_mm256_cvtps_epi32(power.v), _mm256_set1_epi32(127)), 23);
    return {_mm256_mul_ps(a.v, _mm256_castsi256_ps(exponent))};
  }
  // The first `count` values of a, then those of b.
  static V8 first(V8 a, V8 b, std::int64_t count) {
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                  counts = _mm256_set1_epi32(static_cast<int>(count));
    return {_mm256_blendv_ps(b.v, a.v, _mm256_castsi256_ps(_mm256_cmpgt_epi32(counts, places)))};
  }
  // low, high = a0 b0 a1 b1 ...
  static void zip(V8 a, V8 b, V8& low, V8& high) {
    const __m256 x = _mm256_unpacklo_ps(a.v, b.v), y = _mm256_unpackhi_ps(a.v, b.v);
    low = {_mm256_permute2f128_ps(x, y, 0x20)};
    high = {_mm256_permute2f128_ps(x, y, 0x31)};
  }
  // Zeros where the bit of a value is not set.
  static V8 keep(V8 a, std::uint32_t bits) {
    const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128),
                  set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), places);
    return {_mm256_and_ps(a.v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, places)))};
  }
  static std::uint32_t kept(const Dropout& dropout, std::uint64_t counter) {
    return kept_bits(dropout, counter);
  }
  static float sum(V8 a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float highest(V8 a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
};
inline V8 operator+(V8 a, V8 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline V8 operator-(V8 a, V8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline V8 operator*(V8 a, V8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline V8 operator/(V8 a, V8 b) { return {_mm256_div_ps(a.v, b.v)}; }
