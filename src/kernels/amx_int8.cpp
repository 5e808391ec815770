// AMX in int8: one tile is 16 rows of 64 integers. As in bf16, vector work is spread between the
// tile multiplications: scales, bias and activation of the block before, and integers of the rows
// that accumulate() takes next.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-int8")

namespace gpuhpc::kernels {
namespace {

#include "amx_blocks.inl"
#include "int8_rows.inl"

// Tiles 0-3 = 32 rows of a x one panel; A: Int8, or std::uint8_t. between.step() is called twice
// in the multiplications of every 64 of k: more work at one place would keep the tiles waiting.
template <typename A, typename Between>
inline void multiply(const A* a, std::int64_t stride, const Int8* b, std::int64_t k_count,
                     Fetcher& fetcher, Between& between) {
  start_block({});
  for (std::int64_t k = 0; k < k_count; k += 64, a += 64, b += 2048) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a, stride);
    _tile_stream_loadd(7, b + 1024, 64);
    _tile_loadd(5, a + 16 * stride, stride);
    between.step();
    if constexpr (std::is_same_v<A, Int8>) {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      between.step();
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      between.step();
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    }
    fetcher.step();
  }
}

// A finished block of 32 x 32 sums.
struct Pending {
  std::int64_t rows_a_step = 32;
  const std::int32_t* block = nullptr;
  const float* scales = nullptr;  // (32) of the columns
  std::int64_t row = 32;          // the first that is not treated yet

  __m512 sums(std::int64_t r, int half) const {
    return _mm512_cvtepi32_ps(_mm512_load_si512(block + r * 32 + 16 * half));
  }
};

// Scales, bias, activation and rounding.
template <Activation kActivation>
struct Finish : Pending {
  const Int8* row_scales = nullptr;  // of the rows, in their strides:
  std::int64_t scale_stride = 0;
  const float* bias = nullptr;
  BFloat16* output = nullptr;
  std::int64_t stride = 0;

  float scale(std::int64_t r) const {
    float scale;
    __builtin_memcpy(&scale, row_scales + r * scale_stride, sizeof scale);
    return scale;
  }
  template <int kRows>
  inline void finish_rows(std::int64_t first) const {
    const __m512 scales0 = _mm512_loadu_ps(scales), scales1 = _mm512_loadu_ps(scales + 16),
                 bias0 = _mm512_loadu_ps(bias), bias1 = _mm512_loadu_ps(bias + 16);
    __m512 x[2 * kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512 own = _mm512_set1_ps(scale(first + r));
      x[2 * r] = _mm512_fmadd_ps(sums(first + r, 0), _mm512_mul_ps(own, scales0), bias0);
      x[2 * r + 1] = _mm512_fmadd_ps(sums(first + r, 1), _mm512_mul_ps(own, scales1), bias1);
    }
    activate_int8<kActivation>(x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      store_bf16(output + (first + r) * stride, x[2 * r], x[2 * r + 1]);
  }
  void step() { run(row + rows_a_step); }
  void run(std::int64_t until) {
    const std::int64_t last = until < 32 ? until : 32;
    for (; row + 3 <= last; row += 3) finish_rows<3>(row);
    for (; row + 2 <= last; row += 2) finish_rows<2>(row);
    for (; row < last; ++row) finish_rows<1>(row);
  }
};

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16, Int8>& call) {
  alignas(64) std::int32_t blocks[2][32 * 32];
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t k_count = weight.panel_rows(), steps = k_count / 64 * 2;
  Fetcher fetcher(call.next);
  Finish<kActivation> finish;
  finish.rows_a_step = (31 + steps) / steps;
  finish.scale_stride = call.input_stride;
  finish.stride = call.output_stride;
  int current = 0;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t p = 0; p < call.panels; ++p) {
      const Int8* input = call.input + row * call.input_stride;
      const std::int64_t panel = call.first_panel + p;
      multiply(input, call.input_stride, weight.panel(panel), k_count, fetcher, finish);
      finish.run(32);
      store_block(blocks[current], 32);
      finish.block = blocks[current];
      finish.row_scales = scale_of_row(input, call.input_stride);
      finish.scales = weight.scales.data() + panel * kPanel;
      finish.bias = call.bias + panel * kPanel;
      finish.output = call.output + row * call.output_stride + p * kPanel;
      finish.row = 0;
      current ^= 1;
    }
  finish.run(32);
}

void linear(const LinearCall<BFloat16, Int8>& call) {
  stored_before_tiles();
  with_activation(call.activation,
                  [&]<Activation kActivation> { linear_activated<kActivation>(call); });
}

// 32 rows of bf16 become integers, 64 columns at a step. While one row is turned, the extremes of
// the next are looked for.
class Quantizer {
 public:
  // `columns`: a multiple of 32; rows of the output are round_up(columns, 64) wide.
  void begin(const BFloat16* input, std::int64_t stride, std::int64_t columns, std::uint8_t* output,
             std::int64_t output_stride, float (*scales)[2]) {
    input_ = input, stride_ = stride, columns_ = columns;
    output_ = output, output_stride_ = output_stride, scales_ = scales;
    row_ = column_ = 0;
    extremes_ = {};
    for (std::int64_t i = 0; i < columns; i += 64) Columns64(input, i, columns).widen(extremes_);
    begin_row();
  }
  bool done() const { return row_ == kRows; }
  void step() {
    const BFloat16* from = input_ + row_ * stride_;
    const BFloat16* next = row_ + 1 < kRows ? from + stride_ : from;
    _mm512_store_si512(output_ + row_ * output_stride_ + column_,
                       Columns64(from, column_, columns_).quantized(inverse_, zero_));
    Columns64(next, column_, columns_).widen(extremes_);
    column_ += 64;
    if (column_ < columns_) return;
    column_ = 0;
    if (++row_ < kRows) begin_row();
  }

 private:
  static constexpr std::int64_t kRows = 32;
  void begin_row() {
    const RowScale scale = extremes_.scale();
    scales_[row_][0] = scale.scale;
    scales_[row_][1] = -scale.scale * scale.zero;
    inverse_ = _mm512_set1_ps(scale.inverse);
    zero_ = _mm512_set1_ps(kRounding + scale.zero);
    extremes_ = {};
  }

  const BFloat16* input_ = nullptr;
  std::int64_t stride_ = 0, columns_ = 0, output_stride_ = 0;
  std::uint8_t* output_ = nullptr;
  float (*scales_)[2] = nullptr;  // (32) scale, and what integers of 0 stand for
  std::int64_t row_ = kRows, column_ = 0;
  Extremes extremes_;
  __m512 inverse_ = {}, zero_ = {};
};

// Adds finished blocks to the output, or writes them there, and turns the rows that come next.
struct AddAndQuantize : Pending {
  float* output = nullptr;
  std::int64_t stride = 0;
  bool overwrite = false;
  const float (*row_scales)[2] = nullptr;
  alignas(64) float totals[32] = {};  // of the columns, times their scales
  Quantizer next;
  std::int64_t panels = 1, due = 0;  // due / panels: 64 columns of a row that are to be turned

  void add(std::int64_t until) {
    if (row >= 32) return;
    const __m512 scales0 = _mm512_loadu_ps(scales), scales1 = _mm512_loadu_ps(scales + 16),
                 totals0 = _mm512_load_ps(totals), totals1 = _mm512_load_ps(totals + 16);
    for (const std::int64_t last = until < 32 ? until : 32; row < last; ++row) {
      const __m512 own = _mm512_set1_ps(row_scales[row][0]),
                   zero = _mm512_set1_ps(row_scales[row][1]);
      float* to = output + row * stride;
      const __m512 start0 = overwrite ? _mm512_setzero_ps() : _mm512_loadu_ps(to),
                   start1 = overwrite ? _mm512_setzero_ps() : _mm512_loadu_ps(to + 16);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(sums(row, 0), _mm512_mul_ps(own, scales0),
                                           _mm512_fmadd_ps(zero, totals0, start0)));
      _mm512_storeu_ps(to + 16, _mm512_fmadd_ps(sums(row, 1), _mm512_mul_ps(own, scales1),
                                                _mm512_fmadd_ps(zero, totals1, start1)));
    }
  }
  // Of the columns of panel p, over `depth` rows from k on.
  void total(const PackedMatrix<Int8>& weight, std::int64_t p, std::int64_t k, std::int64_t depth) {
    scales = weight.scales.data() + p * kPanel;
    __m512i sum0 = _mm512_setzero_si512(), sum1 = _mm512_setzero_si512();
    for (std::int64_t i = k / 64; i < (k + depth) / 64; ++i) {
      const std::int32_t* sums = weight.sums.data() + i * weight.columns + p * kPanel;
      sum0 = _mm512_add_epi32(sum0, _mm512_loadu_si512(sums));
      sum1 = _mm512_add_epi32(sum1, _mm512_loadu_si512(sums + 16));
    }
    _mm512_store_ps(totals, _mm512_mul_ps(_mm512_cvtepi32_ps(sum0), _mm512_loadu_ps(scales)));
    _mm512_store_ps(totals + 16,
                    _mm512_mul_ps(_mm512_cvtepi32_ps(sum1), _mm512_loadu_ps(scales + 16)));
  }
  void quantize_rest() {
    while (!next.done()) next.step();
    due = 0;
  }
  void step() {
    add(row + rows_a_step);
    for (due += 16; due >= panels; due -= panels)
      if (!next.done()) next.step();
  }
};

constexpr std::int64_t kMostColumns = 1024;  // of int8_piece()

// Integers of 32 rows and one piece of k: two of them, the one that is multiplied and the next.
struct Pieces {
  alignas(64) std::uint8_t integers[2][32 * (kMostColumns + 64)];
  // three, since the last block of a piece is added when the piece after the next is being made
  float scales[3][32][2];
};

void accumulate(const AccumulateCall<BFloat16, Int8>& call) {
  Pieces pieces;
  alignas(64) std::int32_t blocks[2][32 * 32];
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t columns = weight.rows, piece = int8_piece(columns), panels = panels_of(call),
                     stride = round_up(piece, 128) + 64,  // an odd number of lines
      parts = (columns + piece - 1) / piece, count = (call.rows + 31) / 32 * parts;
  Fetcher fetcher(call.next);
  AddAndQuantize work;
  work.panels = panels;
  work.stride = call.output_stride;
  const auto prepare = [&](std::int64_t i) {
    if (i == count) return;
    const std::int64_t k = i % parts * piece;
    work.next.begin(call.input + i / parts * 32 * call.input_stride + k, call.input_stride,
                    columns - k < piece ? columns - k : piece, pieces.integers[i % 2], stride,
                    pieces.scales[i % 3]);
  };
  prepare(0);
  int current = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    work.quantize_rest();
    stored_before_tiles();
    prepare(i + 1);
    const std::int64_t k = i % parts * piece,
                       depth = weight.panel_rows() - k < piece ? weight.panel_rows() - k : piece,
                       steps = depth / 64 * 2;
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t panel = call.first_panel + p;
      work.rows_a_step = (31 + steps) / steps;
      multiply(pieces.integers[i % 2], stride, weight.panel(panel, k), depth, fetcher, work);
      work.add(32);
      store_block(blocks[current], 32);
      work.block = blocks[current];
      work.row_scales = pieces.scales[i % 3];
      work.total(weight, panel, k, depth);
      work.output = call.output + i / parts * 32 * call.output_stride + p * kPanel;
      work.overwrite = call.overwrite && k == 0;
      work.row = 0;
      current ^= 1;
    }
  }
  work.add(32);
}

}  // namespace

void set_amx(EncoderKernels<BFloat16, Int8>& kernels) {
  kernels.linear = linear;
  kernels.accumulate = accumulate;
  kernels.begin = begin;
  kernels.end = end;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
