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
#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "int8_rows.inl"
#include "simd_math.inl"

// Tiles 0-3 = 32 rows of a x one panel. between.step() is called after the multiplications of every
// 64 of k.
template <typename Between>
inline void multiply(const Int8* a, std::int64_t stride, const Int8* b, std::int64_t k_count,
                     Fetcher& fetcher, Between& between) {
  start_block({});
  for (std::int64_t k = 0; k < k_count; k += 64, a += 64, b += 2048) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a, stride);
    _tile_stream_loadd(7, b + 1024, 64);
    _tile_loadd(5, a + 16 * stride, stride);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
    fetcher.step();
    between.step();
  }
}

// A finished block of 32 x 32 sums, and where the scales of its rows and columns stand.
struct Pending {
  std::int64_t rows_a_step = 32;
  const std::int32_t* block = nullptr;
  const Int8* row_scales = nullptr;  // of floats, from row to row:
  std::int64_t scale_stride = 0;
  const float* scales = nullptr;  // (32) of the columns
  std::int64_t row = 32;          // the first that is not treated yet

  float scale(std::int64_t r) const {
    float scale;
    __builtin_memcpy(&scale, row_scales + r * scale_stride, sizeof scale);
    return scale;
  }
  __m512 sums(std::int64_t r, int half) const {
    return _mm512_cvtepi32_ps(_mm512_load_si512(block + r * 32 + 16 * half));
  }
};

// Scales, bias, activation and rounding.
template <Activation kActivation>
struct Finish : Pending {
  const float* bias = nullptr;
  BFloat16* output = nullptr;
  std::int64_t stride = 0;

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
    activate_bf16<kActivation>(x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      store_bf16(output + (first + r) * stride, x[2 * r], x[2 * r + 1]);
  }
  void step() { run(row + rows_a_step); }
  void run(std::int64_t until) {
    const std::int64_t last = until < 32 ? until : 32;
    for (; row + 3 <= last; row += 3) finish_rows<3>(row);
    for (; row < last; ++row) finish_rows<1>(row);
  }
};

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16, Int8>& call) {
  alignas(64) std::int32_t blocks[2][32 * 32];
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t k_count = weight.panel_rows(), steps = k_count / 64;
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

// Adds finished blocks to the output, or writes them there, and turns the rows that come next.
struct AddAndQuantize : Pending {
  float* output = nullptr;
  std::int64_t stride = 0;
  bool overwrite = false;
  Quantizer next;
  std::int64_t chunks_a_step = 1;

  void add(std::int64_t until) {
    const __m512 scales0 = _mm512_loadu_ps(scales), scales1 = _mm512_loadu_ps(scales + 16);
    for (const std::int64_t last = until < 32 ? until : 32; row < last; ++row) {
      const __m512 own = _mm512_set1_ps(scale(row));
      float* to = output + row * stride;
      const __m512 start0 = overwrite ? _mm512_setzero_ps() : _mm512_loadu_ps(to),
                   start1 = overwrite ? _mm512_setzero_ps() : _mm512_loadu_ps(to + 16);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(sums(row, 0), _mm512_mul_ps(own, scales0), start0));
      _mm512_storeu_ps(to + 16, _mm512_fmadd_ps(sums(row, 1), _mm512_mul_ps(own, scales1), start1));
    }
  }
  void quantize(std::int64_t chunks) {
    for (; chunks > 0 && !next.done(); --chunks) next.step();
  }
  void step() {
    if (row < 32) add(row + rows_a_step);
    quantize(chunks_a_step);
  }
};

constexpr std::int64_t kMostColumns = 1024;  // of int8_piece()

// Integers of 32 rows and one piece of k: two of them, the one that is multiplied and the next.
struct Pieces {
  alignas(64) Int8 integers[2][32 * (kMostColumns + 64)];
  // three, since the last block of a piece is added when the piece after the next is being made
  alignas(64) float scales[3][32];
};

void accumulate(const AccumulateCall<BFloat16, Int8>& call) {
  Pieces pieces;
  alignas(64) std::int32_t blocks[2][32 * 32];
  const PackedMatrix<Int8>& weight = *call.weight;
  const std::int64_t columns = weight.rows, piece = int8_piece(columns), panels = panels_of(call),
                     stride = round_up(piece, 128) + 64,  // an odd number of lines
                     parts = (columns + piece - 1) / piece,
                     count = (call.rows + 31) / 32 * parts;
  Fetcher fetcher(call.next);
  AddAndQuantize work;
  work.chunks_a_step = (31 + panels) / panels;
  work.scale_stride = sizeof(float);
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
    work.quantize(32 * kMostColumns);
    stored_before_tiles();
    prepare(i + 1);
    const std::int64_t k = i % parts * piece,
                       depth = weight.panel_rows() - k < piece ? weight.panel_rows() - k : piece,
                       steps = depth / 64;
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t panel = call.first_panel + p;
      work.rows_a_step = (31 + steps) / steps;
      multiply(pieces.integers[i % 2], stride, weight.panel(panel, k), depth, fetcher, work);
      if (work.row < 32) work.add(32);
      store_block(blocks[current], 32);
      work.block = blocks[current];
      work.row_scales = reinterpret_cast<const Int8*>(pieces.scales[i % 3]);
      work.scales = weight.scales.data() + panel * kPanel;
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
