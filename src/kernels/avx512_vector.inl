#pragma once
// One AVX-512 register of floats: included inside an anonymous namespace, after the target pragma.

struct V16 {
  static constexpr int kWidth = 16, kRows = 12;
  __m512 v;
  static V16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static void store(float* p, V16 a) { _mm512_storeu_ps(p, a.v); }
  static V16 set(float x) { return {_mm512_set1_ps(x)}; }
  static V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static V16 abs(V16 a) { return {_mm512_abs_ps(a.v)}; }
  static bool any_above(V16 a, V16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ) != 0; }
  static V16 floor(V16 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  }
  static V16 scale_by_power(V16 a, V16 power) { return {_mm512_scalef_ps(a.v, power.v)}; }
  // The first `count` values of a, then those of b.
  static V16 first(V16 a, V16 b, std::int64_t count) {
    return {_mm512_mask_blend_ps(
        static_cast<__mmask16>(count >= kWidth ? 0xffffU : (1U << count) - 1U), b.v, a.v)};
  }
  // low, high = a0 b0 a1 b1 ...
  static void zip(V16 a, V16 b, V16& low, V16& high) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    low = {_mm512_permutex2var_ps(a.v, lower, b.v)};
    high = {_mm512_permutex2var_ps(a.v, _mm512_add_epi32(lower, _mm512_set1_epi32(8)), b.v)};
  }
  // Zeros where the bit of a value is not set.
  static V16 keep(V16 a, std::uint32_t bits) {
    return {_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), a.v)};
  }
  static __m512i square_and(__m512i x, __m512i add) {
    return _mm512_add_epi64(_mm512_mullo_epi64(x, x), add);
  }
  static __m512i turned(__m512i x) { return _mm512_ror_epi64(x, 32); }
  // kept_bits of dropout.inl: eight counters at once.
  static std::uint32_t kept(const Dropout& dropout, std::uint64_t counter) {
    const __m512i key = _mm512_set1_epi64(static_cast<long long>(dropout.key));
    const __m512i counters = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(counter)),
                                              _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    const __m512i y = _mm512_mullo_epi64(counters, key), z = _mm512_add_epi64(y, key);
    __m512i x = turned(square_and(y, y));
    x = turned(square_and(x, z));
    x = turned(square_and(x, y));
    const __m512i t = square_and(x, z);
    const __m512i random = _mm512_xor_si512(t, _mm512_srli_epi64(square_and(turned(t), y), 32));
    return _mm512_cmpge_epu16_mask(random,
                                   _mm512_set1_epi16(static_cast<short>(dropout.threshold)));
  }
  static float sum(V16 a) { return _mm512_reduce_add_ps(a.v); }
  static float highest(V16 a) { return _mm512_reduce_max_ps(a.v); }
};
inline V16 operator+(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline V16 operator-(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline V16 operator*(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline V16 operator/(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
