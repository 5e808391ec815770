#pragma once
// Rows of activations to integers: included inside the anonymous namespace of a file with int8
// kernels, after its target macro.
// The largest size is searched among bits, which order as sizes do and keep what is not a number.

// Multiplied with values to get integers; a scale of 0 belongs to zeros alone.
struct RowScale {
  float scale, inverse;
  explicit RowScale(float largest)
      : scale(largest / kHighestInt8), inverse(scale > 0 ? 1.0F / scale : 0.0F) {}
};

// Added to numbers below 2^22, this leaves them rounded in the lowest bits.
constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23

// 32 bf16 to 16-bit integers.
inline __m512i quantize_pairs(__m512i x, __m512 inverse) {
  const __m512 rounding = _mm512_set1_ps(kRounding);
  const __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
               odd = _mm512_castsi512_ps(
                   _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  return _mm512_mask_blend_epi16(
      0xaaaaaaaaU, _mm512_castps_si512(_mm512_fmadd_ps(even, inverse, rounding)),
      _mm512_slli_epi32(_mm512_castps_si512(_mm512_fmadd_ps(odd, inverse, rounding)), 16));
}

// 64 columns of bf16; beyond `columns` (a multiple of 32) zeros.
struct Columns64 {
  __m512i first, second;
  Columns64(const BFloat16* row, std::int64_t column, std::int64_t columns)
      : first(_mm512_loadu_si512(row + column)),
        second(column + 32 < columns ? _mm512_loadu_si512(row + column + 32)
                                     : _mm512_setzero_si512()) {}
  __m512i sizes() const {  // as 16-bit integers
    const __m512i size = _mm512_set1_epi16(0x7fff);
    return _mm512_max_epu16(_mm512_and_si512(first, size), _mm512_and_si512(second, size));
  }
  // 64 integers in the order of the columns
  __m512i quantized(__m512 inverse) const {
    const __m512i lanes = _mm512_packs_epi16(quantize_pairs(first, inverse),
                                             quantize_pairs(second, inverse));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), lanes);
  }
};

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline float largest_size(__m512i sizes_of_bf16) {
  const __m512i both = _mm512_max_epu16(sizes_of_bf16, _mm512_slli_epi32(sizes_of_bf16, 16));
  return float_of(_mm512_reduce_max_epu32(both) & 0xffff0000U);
}

// 32 rows of bf16 become integers, 64 columns at a step. While one row is turned, the largest size
// of the next is looked for.
class Quantizer {
 public:
  // `columns`: a multiple of 32; rows of the output are round_up(columns, 64) wide.
  void begin(const BFloat16* input, std::int64_t stride, std::int64_t columns, Int8* output,
             std::int64_t output_stride, float* scales) {
    input_ = input, stride_ = stride, columns_ = columns;
    output_ = output, output_stride_ = output_stride, scales_ = scales;
    row_ = column_ = 0;
    sizes_ = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < columns; i += 64)
      sizes_ = _mm512_max_epu16(sizes_, Columns64(input, i, columns).sizes());
    begin_row();
  }
  bool done() const { return row_ == kRows; }
  void step() {
    const BFloat16* from = input_ + row_ * stride_;
    const BFloat16* next = row_ + 1 < kRows ? from + stride_ : from;
    _mm512_store_si512(output_ + row_ * output_stride_ + column_,
                       Columns64(from, column_, columns_).quantized(inverse_));
    sizes_ = _mm512_max_epu16(sizes_, Columns64(next, column_, columns_).sizes());
    column_ += 64;
    if (column_ < columns_) return;
    column_ = 0;
    if (++row_ < kRows) begin_row();
  }

 private:
  static constexpr std::int64_t kRows = 32;
  void begin_row() {
    const RowScale scale(largest_size(sizes_));
    scales_[row_] = scale.scale;
    inverse_ = _mm512_set1_ps(scale.inverse);
    sizes_ = _mm512_setzero_si512();
  }

  const BFloat16* input_ = nullptr;
  std::int64_t stride_ = 0, columns_ = 0, output_stride_ = 0;
  Int8* output_ = nullptr;
  float* scales_ = nullptr;
  std::int64_t row_ = kRows, column_ = 0;
  __m512i sizes_ = {};
  __m512 inverse_ = {};
};
