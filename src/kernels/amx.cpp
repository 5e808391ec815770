// AMX in bf16: one tile is 16 rows of 64 bytes.
// Vector work on a finished block is spread between the tile multiplications of the next one, so
// that both units stay busy.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

namespace gpuhpc::kernels {
namespace {

#include "amx_blocks.inl"
#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "simd_math.inl"

// Tiles 0-3 = start + 32 rows of a x one panel. A stays in the first-level cache over the panels; B
// streams past it. between.step(i) is called after the multiplications of the i-th 32 of k.
// (Functors, not lambdas: those do not get the target.)
template <typename Between>
inline void multiply(const BFloat16* a, std::int64_t stride, std::int64_t k_step, const BFloat16* b,
                     std::int64_t k_count, Fetcher& fetcher, const Between& between,
                     const Start& start) {
  const std::int64_t stride_bytes = stride * 2;
  start_block(start);
  for (std::int64_t k = 0; k < k_count; k += 32, a += k_step, b += 1024) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a, stride_bytes);
    _tile_stream_loadd(7, b + 512, 64);
    _tile_loadd(5, a + 16 * stride, stride_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    fetcher.step();
    between.step(k / 32);
  }
}

// A finished 32 x 32 block, of which some rows are treated between the multiplications of the next
// block.
struct Pending {
  const float* block = nullptr;
  std::int64_t rows_a_step = 32;
};

// Bias, activation and rounding.
template <Activation kActivation>
struct Finish : Pending {
  const float* bias = nullptr;
  BFloat16* output = nullptr;
  std::int64_t stride = 0;

  template <int kRows>
  inline void rows(std::int64_t first) const {
    const __m512 bias0 = _mm512_loadu_ps(bias), bias1 = _mm512_loadu_ps(bias + 16);
    __m512 x[2 * kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      x[2 * r] = _mm512_add_ps(_mm512_load_ps(block + (first + r) * 32), bias0);
      x[2 * r + 1] = _mm512_add_ps(_mm512_load_ps(block + (first + r) * 32 + 16), bias1);
    }
    activate_bf16<kActivation>(x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      store_bf16(output + (first + r) * stride, x[2 * r], x[2 * r + 1]);
  }
  void step(std::int64_t i) const {
    std::int64_t row = i * rows_a_step;
    const std::int64_t last = row + rows_a_step < 32 ? row + rows_a_step : 32;
    if (block == nullptr) return;
    for (; row + 3 <= last; row += 3) rows<3>(row);
    for (; row < last; ++row) rows<1>(row);
  }
};

struct Nothing {
  void step(std::int64_t) const {}
};

// 32 rows of A of this depth fit into the first-level cache with room for B: longer sums are made
// piece by piece.
constexpr std::int64_t kPiece = 512;
constexpr std::int64_t kPartialPanels = 8;

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16>& call) {
  alignas(64) float blocks[2][32 * 32];
  alignas(64) float partial[kPartialPanels][32 * 32];
  const std::int64_t k_count = depth_of(call), pieces = (k_count + kPiece - 1) / kPiece,
                     piece = (k_count / 32 + pieces - 1) / pieces * 32;
  const std::int64_t last_piece = (pieces - 1) * piece, last_steps = (k_count - last_piece) / 32,
                     rows_a_step = (31 + last_steps) / last_steps;
  const std::int64_t group = pieces == 1 ? call.panels : kPartialPanels;
  Fetcher fetcher(call.next);
  Finish<kActivation> finish;
  int current = 0;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t first = 0; first < call.panels; first += group) {
      const BFloat16* input = call.input + row * call.input_stride;
      const std::int64_t last = first + group < call.panels ? first + group : call.panels;
      for (std::int64_t k = 0; k < last_piece; k += piece)
        for (std::int64_t p = first; p < last; ++p) {
          multiply(input + k, call.input_stride, 32,
                   call.weight->panel(call.first_panel + p, call.first_k + k), piece, fetcher,
                   Nothing{}, k == 0 ? Start{} : Start{partial[p - first], 32});
          store_block(partial[p - first], 32);
        }
      for (std::int64_t p = first; p < last; ++p) {
        multiply(input + last_piece, call.input_stride, 32,
                 call.weight->panel(call.first_panel + p, call.first_k + last_piece),
                 k_count - last_piece, fetcher, finish,
                 pieces == 1 ? Start{} : Start{partial[p - first], 32});
        store_block(blocks[current], 32);
        finish = {{blocks[current], rows_a_step},
                  call.bias + (call.first_panel + p) * kPanel,
                  call.output + row * call.output_stride + p * kPanel,
                  call.output_stride};
        current ^= 1;
      }
    }
  finish.rows_a_step = 32;
  finish.step(0);
}

void linear(const LinearCall<BFloat16>& call) {
  stored_before_tiles();
  with_activation(call.activation,
                  [&]<Activation kActivation> { linear_activated<kActivation>(call); });
}

void accumulate(const AccumulateCall<BFloat16>& call) {
  stored_before_tiles();
  const std::int64_t k_count = depth_of(call), panels = panels_of(call),
                     row_step = call.row_step == 0 ? 32 * call.input_stride : call.row_step;
  Fetcher fetcher(call.next);
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t k = 0; k < k_count; k += kPiece) {
      const BFloat16* input = call.input + row / 32 * row_step + k / 32 * call.k_step;
      const std::int64_t depth = k_count - k < kPiece ? k_count - k : kPiece;
      for (std::int64_t p = 0; p < panels; ++p) {
        float* output = call.output + row * call.output_stride + p * kPanel;
        multiply(input, call.input_stride, call.k_step,
                 call.weight->panel(call.first_panel + p, call.first_k + k), depth, fetcher,
                 Nothing{}, call.overwrite && k == 0 ? Start{} : Start{output, call.output_stride});
        store_block(output, call.output_stride);
      }
    }
}

struct Maximum {
  static __m512 of(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
};
struct Sum {
  static __m512 of(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
};
// Element r of the result: all of rows[r] taken together.
template <typename Operation>
inline __m512 reduce_rows(const __m512 (&rows)[16]) {
  __m512 two[8], four[4], eight[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    two[i] = Operation::of(_mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]),
                           _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
    four[i] = Operation::of(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                            _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  for (int i = 0; i < 2; ++i)
    eight[i] = Operation::of(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd));
  return Operation::of(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88),
                       _mm512_shuffle_f32x4(eight[0], eight[1], 0xdd));
}

// 16 rows of scores, `keys` wide (a multiple of 32) of which `tokens` count, to bf16 weights;
// factors: 1 / their sums.
inline void softmax_block(const float* scores, BFloat16* weights, std::int64_t tokens,
                          std::int64_t keys, float scale, float* factors) {
  const std::int64_t whole = tokens / 16 * 16;
  const auto tail = static_cast<__mmask16>((1U << (tokens - whole)) - 1U);
  const __m512 lowest = _mm512_set1_ps(-1e30F), exponent = _mm512_set1_ps(scale * 1.44269504F);
  __m512 rows[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r)
    rows[r] = tail == 0 ? lowest : _mm512_mask_loadu_ps(lowest, tail, scores + r * keys + whole);
  for (std::int64_t t = 0; t < whole; t += 16) {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r)
      rows[r] = _mm512_max_ps(rows[r], _mm512_loadu_ps(scores + r * keys + t));
  }
  alignas(64) float tops[16];
  _mm512_store_ps(tops, _mm512_mul_ps(reduce_rows<Maximum>(rows), exponent));
  for (int r = 0; r < 16; ++r) {
    const float* row = scores + r * keys;
    BFloat16* out = weights + r * keys;
    const __m512 top = _mm512_set1_ps(tops[r]);
    __m512 sum = _mm512_setzero_ps(), other = _mm512_setzero_ps();
    std::int64_t t = 0;
    for (; t + 32 <= tokens; t += 32) {
      const __m512 a = power_of_two_bf16(_mm512_fmsub_ps(_mm512_loadu_ps(row + t), exponent, top));
      const __m512 b =
          power_of_two_bf16(_mm512_fmsub_ps(_mm512_loadu_ps(row + t + 16), exponent, top));
      sum = _mm512_add_ps(sum, a);
      other = _mm512_add_ps(other, b);
      store_bf16(out + t, a, b);
    }
    if (t < tokens) {  // one or two registers, the last one partly
      __m512 a = power_of_two_bf16(_mm512_fmsub_ps(_mm512_loadu_ps(row + t), exponent, top)),
             b = _mm512_setzero_ps();
      if (t == whole) {
        a = _mm512_maskz_mov_ps(tail, a);
      } else if (tail != 0) {
        b = _mm512_maskz_mov_ps(
            tail, power_of_two_bf16(_mm512_fmsub_ps(_mm512_loadu_ps(row + whole), exponent, top)));
      }
      sum = _mm512_add_ps(sum, a);
      other = _mm512_add_ps(other, b);
      store_bf16(out + t, a, b);
    }
    rows[r] = _mm512_add_ps(sum, other);
  }
  _mm512_store_ps(factors, _mm512_div_ps(_mm512_set1_ps(1.0F), reduce_rows<Sum>(rows)));
}

struct HeadScratch {
  BFloat16* keys;     // tiles of 16 dimension pairs x 16 keys: (head_size / 32, padded keys / 16)
  BFloat16* values;   // tiles of 16 key pairs x 16 dimensions: (padded keys / 32, head_size / 16)
  BFloat16* weights;  // (16, padded keys)
  float* scores[2];   // (16, padded keys)
  float* results[2];  // (16, head_size)
};

constexpr std::int64_t kTile = 512;  // bf16 values

void gather_head(const AttentionCall<BFloat16>& call, std::int64_t head, std::int64_t keys,
                 const HeadScratch& scratch) {
  const BFloat16* key = call.qkv + call.key_column + head * call.head_size;
  const BFloat16* value = call.qkv + call.value_column + head * call.head_size;
  BFloat16* tile = scratch.keys;
  for (std::int64_t i = 0; i < call.head_size; i += 32)
    for (std::int64_t t = 0; t < keys; t += 16, tile += kTile) {
      __m512i rows[16];
      transpose_keys(call, key + i, t, rows);
      for (int j = 0; j < 16; ++j) _mm512_store_si512(tile + j * 32, rows[j]);
    }
  tile = scratch.values;
  for (std::int64_t t = 0; t < keys; t += 32)
    for (std::int64_t i = 0; i < call.head_size; i += 16, tile += kTile)
      for (std::int64_t j = 0; j < 16; ++j) {
        const std::int64_t first = t + 2 * j;
        const BFloat16* row0 = first < call.tokens ? value + first * call.qkv_stride + i : nullptr;
        const BFloat16* row1 =
            first + 1 < call.tokens ? value + (first + 1) * call.qkv_stride + i : nullptr;
        _mm512_store_si512(tile + j * 32, interleave_rows(row0, row1));
      }
}

// Scores of 16 queries against all keys.
inline void score_queries(const AttentionCall<BFloat16>& call, std::int64_t head,
                          const BFloat16* query, std::int64_t q, std::int64_t keys,
                          const BFloat16* key_tiles, float* scores) {
  const std::int64_t tiles = keys / 16, depth = call.head_size / 32, stride = call.qkv_stride * 2;
  for (std::int64_t t = 0; t < tiles;
       t += 4) {  // 64 keys in tiles 0-3, or the last 32 in tiles 0 and 1
    const bool second = t + 2 < tiles;
    if (call.start == nullptr) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      const float* start = call.start + head * call.start_head + q * call.start_stride + t * 16;
      _tile_loadd(0, start, call.start_stride * 4);
      _tile_loadd(1, start + 16, call.start_stride * 4);
      if (second) {
        _tile_loadd(2, start + 32, call.start_stride * 4);
        _tile_loadd(3, start + 48, call.start_stride * 4);
      }
    }
    for (std::int64_t i = 0; i < depth; ++i) {
      const BFloat16* key = key_tiles + (i * tiles + t) * kTile;
      _tile_loadd(4, query + i * 32, stride);
      _tile_loadd(6, key, 64);
      _tile_loadd(7, key + kTile, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (!second) continue;
      _tile_loadd(5, key + 2 * kTile, 64);
      _tile_loadd(6, key + 3 * kTile, 64);
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, scores + t * 16, keys * 4);
    _tile_stored(1, scores + t * 16 + 16, keys * 4);
    if (!second) break;
    _tile_stored(2, scores + t * 16 + 32, keys * 4);
    _tile_stored(3, scores + t * 16 + 48, keys * 4);
  }
}

// results = weights of 16 queries times all values.
inline void weigh_values(const AttentionCall<BFloat16>& call, std::int64_t keys,
                         const HeadScratch& scratch, float* results) {
  const std::int64_t pairs = call.head_size / 32;
  for (std::int64_t i = 0; i < pairs; ++i) {
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t t = 0; t < keys / 32; ++t) {
      _tile_loadd(5, scratch.weights + t * 32, keys * 2);
      _tile_loadd(6, scratch.values + (t * pairs + i) * 2 * kTile, 64);
      _tile_loadd(7, scratch.values + ((t * pairs + i) * 2 + 1) * kTile, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(2, results + i * 32, call.head_size * 4);
    _tile_stored(3, results + i * 32 + 16, call.head_size * 4);
  }
}

// What is left to do for 16 queries once their products are through: written one block later, so
// that nothing waits for tiles.
struct Waiting {
  const float* results = nullptr;
  float factors[16];
  BFloat16* output = nullptr;
  std::int64_t count = 0;

  void write(const AttentionCall<BFloat16>& call) const {
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t i = 0; i < call.head_size; i += 32) {
        const float* result = results + r * call.head_size + i;
        const __m512 factor = _mm512_set1_ps(factors[r]);
        store_bf16(output + r * call.output_stride + i,
                   _mm512_mul_ps(_mm512_loadu_ps(result), factor),
                   _mm512_mul_ps(_mm512_loadu_ps(result + 16), factor));
      }
  }
};

HeadScratch lay_out(const AttentionCall<BFloat16>& call, std::int64_t keys) {
  HeadScratch scratch{};
  scratch.keys = reinterpret_cast<BFloat16*>(call.scratch);
  scratch.values = scratch.keys + keys * call.head_size;
  scratch.weights = scratch.values + keys * call.head_size;
  scratch.scores[0] = reinterpret_cast<float*>(scratch.weights + 16 * keys);
  scratch.scores[1] = scratch.scores[0] + 16 * keys;
  scratch.results[0] = scratch.scores[1] + 16 * keys;
  scratch.results[1] = scratch.results[0] + 16 * call.head_size;
  return scratch;
}

void attention(const AttentionCall<BFloat16>& call) {
  if (call.head_size % 32 != 0) {
    EncoderKernels<BFloat16> plain;
    set_generic(plain);
    return plain.attention(call);
  }
  const std::int64_t keys = round_up(call.tokens, 32);
  const HeadScratch scratch = lay_out(call, keys);
  Waiting waiting;
  int current = 0;
  const std::int64_t first = call.first_query, last = call.last_query();
  for (std::int64_t head = 0; head < call.heads; ++head) {
    gather_head(call, head, keys, scratch);
    stored_before_tiles();
    const BFloat16* queries = call.qkv + head * call.head_size;
    score_queries(call, head, queries + first * call.qkv_stride, first, keys, scratch.keys,
                  scratch.scores[current]);
    for (std::int64_t q = first; q < last; q += 16, current ^= 1) {
      if (q + 16 < last)
        score_queries(call, head, queries + (q + 16) * call.qkv_stride, q + 16, keys, scratch.keys,
                      scratch.scores[current ^ 1]);
      alignas(64) float factors[16];
      softmax_block(scratch.scores[current], scratch.weights, call.tokens, keys, call.scale,
                    factors);
      stored_before_tiles();
      weigh_values(call, keys, scratch, scratch.results[current]);
      waiting.write(call);
      waiting.results = scratch.results[current];
      waiting.output = call.output + q * call.output_stride + head * call.head_size;
      waiting.count = last - q < 16 ? last - q : 16;
      __builtin_memcpy(waiting.factors, factors, sizeof factors);
    }
  }
  waiting.write(call);
}

}  // namespace

void set_amx(EncoderKernels<BFloat16>& kernels) {
  kernels.linear = linear;
  kernels.accumulate = accumulate;
  kernels.attention = attention;
  kernels.begin = begin;
  kernels.end = end;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
