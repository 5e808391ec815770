// AMX for fp32 in halves: a product is low x high, high x high and high x low in the same tiles.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

namespace gpuhpc::kernels {
namespace {

#include "amx_blocks.inl"
#include "avx512_vector.inl"
#include "simd_math.inl"

// of k: the halves of 32 rows take 16 KiB of the first-level cache, beside B
constexpr std::int64_t kPiece = 128;
constexpr std::int64_t kPartialPanels = 8;

// 32 floats to their halves, also in place. Half way cases go up, not to even: the halves add up to
// the value just as well.
inline void split(__m512 a, __m512 b, BFloat16* high, std::int64_t low) {
  const __m512i rounding = _mm512_set1_epi32(0x8000),
                upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  const __m512 high_a = _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(a), rounding), upper));
  const __m512 high_b = _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(b), rounding), upper));
  _mm512_store_si512(high, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high_b, high_a)));
  _mm512_store_si512(high + low, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(
                                     _mm512_sub_ps(b, high_b), _mm512_sub_ps(a, high_a))));
}

// Halves of 32 rows: the high ones of a row, `low` behind them the low ones; distances in bf16
// values.
struct Halves {
  const BFloat16* at;
  std::int64_t stride, k_step, low;
};

// Tiles 0-3 = start + 32 rows x one panel. between.step() is called after the multiplications of
// every 32 of k.
template <typename Between>
inline void multiply(Halves a, const BFloat16* b, std::int64_t k_count, Fetcher& fetcher,
                     Between& between, const Start& start) {
  const std::int64_t stride_bytes = a.stride * 2;
  start_block(start);
  for (std::int64_t k = 0; k < k_count; k += 32, a.at += a.k_step, b += 2 * kLowOfBlock) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a.at + a.low, stride_bytes);
    _tile_stream_loadd(7, b + 512, 64);
    _tile_loadd(5, a.at + a.low + 16 * a.stride, stride_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    fetcher.step();
    _tile_loadd(4, a.at, stride_bytes);
    _tile_loadd(5, a.at + 16 * a.stride, stride_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    fetcher.step();
    _tile_stream_loadd(6, b + kLowOfBlock, 64);
    _tile_stream_loadd(7, b + kLowOfBlock + 512, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    between.step();
  }
}

struct Nothing {
  void step() const {}
};

// A finished block of 32 x 32 sums: bias and activation of some rows at a step, between the
// multiplications of the next block.
template <Activation kActivation>
struct Finish {
  std::int64_t rows_a_step;
  const float* block = nullptr;
  const float* bias = nullptr;
  float* output = nullptr;
  std::int64_t stride = 0, row = 32;

  void step() { run(row + rows_a_step); }
  void run(std::int64_t until) {
    for (const std::int64_t stop = until < 32 ? until : 32; row < stop; ++row)
      for (int i = 0; i < 32; i += 16)
        V16::store(output + row * stride + i,
                   activate(V16::load(block + row * 32 + i) + V16::load(bias + i), kActivation));
  }
};

template <Activation kActivation>
void linear_activated(const LinearCall<float, SplitBFloat16>& call) {
  alignas(64) float blocks[2][32 * 32];
  alignas(64) float partial[kPartialPanels][32 * 32];
  const std::int64_t k_count = depth_of(call), pieces = (k_count + kPiece - 1) / kPiece,
                     piece = (k_count / 32 + pieces - 1) / pieces * 32;
  const std::int64_t last_piece = (pieces - 1) * piece, last_steps = (k_count - last_piece) / 32;
  const std::int64_t group = pieces == 1 ? call.panels : kPartialPanels;
  const auto weights = [&](std::int64_t p, std::int64_t k) {
    return halves(call.weight->panel(call.first_panel + p, call.first_k + k));
  };
  Fetcher fetcher(call.next);
  Finish<kActivation> finish{(31 + last_steps) / last_steps};
  Nothing nothing;
  int current = 0;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t first = 0; first < call.panels; first += group) {
      Halves input{halves(call.input + row * call.input_stride), 2 * call.input_stride, 64,
                   kLowOfRow};
      const std::int64_t last = first + group < call.panels ? first + group : call.panels;
      for (std::int64_t k = 0; k < last_piece; k += piece, input.at += 2 * piece)
        for (std::int64_t p = first; p < last; ++p) {
          multiply(input, weights(p, k), piece, fetcher, nothing,
                   k == 0 ? Start{} : Start{partial[p - first], 32});
          store_block(partial[p - first], 32);
        }
      for (std::int64_t p = first; p < last; ++p) {
        multiply(input, weights(p, last_piece), k_count - last_piece, fetcher, finish,
                 pieces == 1 ? Start{} : Start{partial[p - first], 32});
        store_block(blocks[current], 32);
        finish.block = blocks[current];
        finish.bias = call.bias + (call.first_panel + p) * kPanel;
        finish.output = call.output + row * call.output_stride + p * kPanel;
        finish.stride = call.output_stride;
        finish.row = 0;
        current ^= 1;
      }
    }
  finish.run(32);
}

void linear(const LinearCall<float, SplitBFloat16>& call) {
  stored_before_tiles();
  with_activation(call.activation,
                  [&]<Activation kActivation> { linear_activated<kActivation>(call); });
}

// Rows are split on the way, 32 of them and one piece of k at a time: they meet all panels, unlike
// those of linear().
void accumulate(const AccumulateCall<float, SplitBFloat16>& call) {
  alignas(64) std::byte memory[kPiece * 32 * sizeof(SplitBFloat16)];
  BFloat16* const scratch = reinterpret_cast<BFloat16*>(memory);
  const std::int64_t k_count = depth_of(call), panels = panels_of(call),
                     row_step = call.row_step == 0 ? 32 * call.input_stride : call.row_step;
  const Halves rows{scratch, 32, 2 * kLowOfBlock, kLowOfBlock};
  Fetcher fetcher(call.next);
  Nothing nothing;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t k = 0; k < k_count; k += kPiece) {
      const std::int64_t depth = k_count - k < kPiece ? k_count - k : kPiece;
      const float* input = call.input + row / 32 * row_step + k / 32 * call.k_step;
      for (std::int64_t i = 0; i < depth; ++i) {
        const float* from = input + i / 32 * call.k_step + i % 32 * call.input_stride;
        split(_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16),
              scratch + i / 32 * rows.k_step + i % 32 * 32, kLowOfBlock);
      }
      stored_before_tiles();
      for (std::int64_t p = 0; p < panels; ++p) {
        float* output = call.output + row * call.output_stride + p * kPanel;
        multiply(rows, halves(call.weight->panel(call.first_panel + p, call.first_k + k)), depth,
                 fetcher, nothing,
                 call.overwrite && k == 0 ? Start{} : Start{output, call.output_stride});
        store_block(output, call.output_stride);
      }
    }
}

struct StoreFloats {
  static void vector(float* at, V16 value) { V16::store(at, value); }
  static void one(float* at, float value) { *at = value; }
};

// 16 floats of a row, those from `columns` on as zeros.
inline __m512 load_columns(const float* row, std::int64_t i, std::int64_t columns) {
  if (i + 16 <= columns) return _mm512_load_ps(row + i);
  const int left = i < columns ? static_cast<int>(columns - i) : 0;
  return _mm512_maskz_load_ps(static_cast<__mmask16>((1U << left) - 1U), row + i);
}

// In fp32 to the place of the output, then split there.
void layer_norm(const LayerNormCall<SplitBFloat16>& call) {
  float* const output = reinterpret_cast<float*>(call.output);
  const LayerNormCall<float> floats{call.values, call.stride,        call.rows,    call.columns,
                                    call.gamma,  call.beta,          call.epsilon, call.next_bias,
                                    output,      call.output_stride, call.keep};
  for (std::int64_t r = 0; r < call.rows; ++r) {
    layer_norm_row<V16, StoreFloats>(floats, r);
    const float* row = output + r * call.output_stride;
    for (std::int64_t i = 0; i < call.columns; i += 32)
      split(load_columns(row, i, call.columns), load_columns(row, i + 16, call.columns),
            halves(call.output + r * call.output_stride + i), kLowOfRow);
  }
}

}  // namespace

void set_amx(EncoderKernels<float, SplitBFloat16>& kernels) {
  kernels.linear = linear;
  kernels.accumulate = accumulate;
  kernels.layer_norm = layer_norm;
  kernels.begin = begin;
  kernels.end = end;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
