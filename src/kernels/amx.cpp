// AMX: one tile is 16 rows of 64 bytes. Tiles 0-3 accumulate a block of 32 x 32, 4 and 5 hold rows of A, 6 and 7 of B.
// Vector work on a finished block is spread between the tile multiplications of the next one, so that both units stay busy.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

namespace gpuhpc::kernels {
namespace {

#include "avx512_vector.inl"
#include "simd_math.inl"
#include "avx512_bf16.inl"

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  const TileConfiguration configuration;
  asm volatile("" ::"r"(&configuration) : "memory");  // all of it must be in memory: the intrinsic names its first 8 bytes only
  _tile_loadconfig(&configuration);
}
void end() { _tile_release(); }

// Tile loads are invisible to the compiler: what was stored by vectors must have been stored before them.
inline void stored_before_tiles() { asm volatile("" ::: "memory"); }

// Tiles 0-3 += 32 rows of a x one panel over k_count. A stays in the first-level cache over the panels; B streams past it.
// between.step(i) is called after the multiplications of the i-th 32 of k. (Functors, not lambdas: those do not get the target.)
template <typename Between>
inline void multiply(const BFloat16* a, std::int64_t stride, const BFloat16* b, std::int64_t k_count, const Between& between) {
  const std::int64_t stride_bytes = stride * 2;
  const BFloat16* lower = a + 16 * stride;
  for (std::int64_t k = 0; k < k_count; k += 32, b += 1024) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a + k, stride_bytes);
    _tile_stream_loadd(7, b + 512, 64);
    _tile_loadd(5, lower + k, stride_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    between.step(k / 32);
  }
}

inline void store_block(float* c, std::int64_t stride) {
  _tile_stored(0, c, stride * 4);
  _tile_stored(1, c + 16, stride * 4);
  _tile_stored(2, c + 16 * stride, stride * 4);
  _tile_stored(3, c + 16 * stride + 16, stride * 4);
}

// A finished 32 x 32 block: bias, activation and rounding, some rows between the multiplications of the next block.
template <Activation kActivation>
struct Finish {
  const float* block = nullptr;
  const float* bias = nullptr;
  BFloat16* output = nullptr;
  std::int64_t stride = 0, rows_a_step = 32;

  void step(std::int64_t i) const {
    const std::int64_t first = i * rows_a_step, last = first + rows_a_step < 32 ? first + rows_a_step : 32;
    if (block == nullptr) return;
    const __m512 bias0 = _mm512_loadu_ps(bias), bias1 = _mm512_loadu_ps(bias + 16);
    for (std::int64_t r = first; r < last; ++r)
      store_bf16(output + r * stride, activate_bf16<kActivation>(_mm512_add_ps(_mm512_load_ps(block + r * 32), bias0)),
                 activate_bf16<kActivation>(_mm512_add_ps(_mm512_load_ps(block + r * 32 + 16), bias1)));
  }
};
struct Nothing {
  void step(std::int64_t) const {}
};

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16>& call) {
  alignas(64) float blocks[2][32 * 32];
  const std::int64_t k_count = call.weight->rows, steps = k_count / 32;
  const BFloat16* panels = call.weight->values.data() + call.first_panel * kPanel * k_count;
  Finish<kActivation> finish;
  int current = 0;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t p = 0; p < call.panels; ++p) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      multiply(call.input + row * call.input_stride, call.input_stride, panels + p * kPanel * k_count, k_count, finish);
      store_block(blocks[current], 32);
      finish = {blocks[current], call.bias + (call.first_panel + p) * kPanel, call.output + row * call.output_stride + p * kPanel,
                call.output_stride, (31 + steps) / steps};
      current ^= 1;
    }
  finish.rows_a_step = 32;
  finish.step(0);
}

void linear(const LinearCall<BFloat16>& call) {
  stored_before_tiles();
  switch (call.activation) {
    case Activation::none: return linear_activated<Activation::none>(call);
    case Activation::gelu: return linear_activated<Activation::gelu>(call);
    case Activation::gelu_tanh: return linear_activated<Activation::gelu_tanh>(call);
    case Activation::relu: return linear_activated<Activation::relu>(call);
  }
}

void accumulate(const AccumulateCall<BFloat16>& call) {
  stored_before_tiles();
  const std::int64_t panels = call.weight->columns / kPanel, stride = call.output_stride;
  for (std::int64_t row = 0; row < call.rows; row += 32)
    for (std::int64_t p = 0; p < panels; ++p) {
      float* c = call.output + row * stride + p * kPanel;
      _tile_loadd(0, c, stride * 4);
      _tile_loadd(1, c + 16, stride * 4);
      _tile_loadd(2, c + 16 * stride, stride * 4);
      _tile_loadd(3, c + 16 * stride + 16, stride * 4);
      multiply(call.input + row * call.input_stride, call.input_stride,
               call.weight->values.data() + (p * call.weight->rows + call.first_k) * kPanel, call.k_count, Nothing{});
      store_block(c, stride);
    }
}

struct HeadScratch {
  BFloat16* keys;     // tiles of 16 dimension pairs x 16 keys: (head_size / 32, padded keys / 16)
  BFloat16* values;   // tiles of 16 key pairs x 16 dimensions: (padded keys / 32, head_size / 16)
  BFloat16* weights;  // (16, padded keys)
  float* scores[2];   // (16, padded keys)
  float* results;     // (16, head_size)
};

constexpr std::int64_t kTile = 512;  // bf16 values

void gather_head(const AttentionCall<BFloat16>& call, std::int64_t head, std::int64_t keys, const HeadScratch& scratch) {
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
        const BFloat16* row1 = first + 1 < call.tokens ? value + (first + 1) * call.qkv_stride + i : nullptr;
        _mm512_store_si512(tile + j * 32, interleave_rows(row0, row1));
      }
}

// Scores of 16 queries against all keys.
inline void score_queries(const AttentionCall<BFloat16>& call, const BFloat16* query, std::int64_t keys, const BFloat16* key_tiles, float* scores) {
  const std::int64_t stride = call.qkv_stride * 2, tiles = keys / 16;
  for (std::int64_t t = 0; t < tiles; t += 2) {
    _tile_zero(0);
    _tile_zero(1);
    for (std::int64_t i = 0; i < call.head_size / 32; ++i) {
      _tile_loadd(4, query + i * 32, stride);
      _tile_loadd(6, key_tiles + (i * tiles + t) * kTile, 64);
      _tile_loadd(7, key_tiles + (i * tiles + t + 1) * kTile, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, scores + t * 16, keys * 4);
    _tile_stored(1, scores + t * 16 + 16, keys * 4);
  }
}

// Weights of 16 queries times all values; `count` rows are written.
inline void weigh_values(const AttentionCall<BFloat16>& call, std::int64_t keys, const HeadScratch& scratch, const float* sums,
                         BFloat16* output, std::int64_t count) {
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
    _tile_stored(2, scratch.results, 128);
    _tile_stored(3, scratch.results + 16, 128);
    for (std::int64_t r = 0; r < count; ++r) {
      const __m512 factor = _mm512_set1_ps(1.0F / sums[r]);
      store_bf16(output + r * call.output_stride + i * 32, _mm512_mul_ps(_mm512_load_ps(scratch.results + r * 32), factor),
                 _mm512_mul_ps(_mm512_load_ps(scratch.results + r * 32 + 16), factor));
    }
  }
}

void attention(const AttentionCall<BFloat16>& call) {
  if (call.head_size % 32 != 0) {
    EncoderKernels<BFloat16> plain;
    set_generic(plain);
    return plain.attention(call);
  }
  const std::int64_t keys = round_up(call.tokens, 32);
  HeadScratch scratch{};
  scratch.keys = reinterpret_cast<BFloat16*>(call.scratch);
  scratch.values = scratch.keys + keys * call.head_size;
  scratch.weights = scratch.values + keys * call.head_size;
  scratch.scores[0] = reinterpret_cast<float*>(scratch.weights + 16 * keys);
  scratch.scores[1] = scratch.scores[0] + 16 * keys;
  scratch.results = scratch.scores[1] + 16 * keys;
  for (std::int64_t head = 0; head < call.heads; ++head) {
    gather_head(call, head, keys, scratch);
    stored_before_tiles();
    const BFloat16* queries = call.qkv + head * call.head_size;
    int current = 0;
    score_queries(call, queries, keys, scratch.keys, scratch.scores[0]);
    for (std::int64_t q = 0; q < call.tokens; q += 16, current ^= 1) {
      if (q + 16 < call.tokens) score_queries(call, queries + (q + 16) * call.qkv_stride, keys, scratch.keys, scratch.scores[current ^ 1]);
      const std::int64_t count = call.tokens - q < 16 ? call.tokens - q : 16;
      float sums[16];
      for (std::int64_t r = 0; r < count; ++r)
        sums[r] = softmax_row_bf16(scratch.scores[current] + r * keys, scratch.weights + r * keys, call.tokens, keys, call.scale);
      stored_before_tiles();
      weigh_values(call, keys, scratch, sums, call.output + q * call.output_stride + head * call.head_size, count);
    }
  }
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
