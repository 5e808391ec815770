#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace gpuhpc::kernels {
namespace {

#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "fetcher.inl"
#include "simd_math.inl"

constexpr int kRows = 12, kQueries = 8;

inline __m512bh pairs(__m512i v) { return reinterpret_cast<__m512bh>(v); }
inline __m512bh broadcast_pair(const BFloat16* at) {
  int pair;
  __builtin_memcpy(&pair, at, sizeof pair);
  return pairs(_mm512_set1_epi32(pair));
}

// R rows x 32 columns: acc += a x panel over k_count (a multiple of 32).
template <int R>
inline void multiply(const BFloat16* a, std::int64_t stride, std::int64_t k_step, const BFloat16* b,
                     std::int64_t k_count, Fetcher& fetcher, __m512 (&acc)[R][2]) {
  for (std::int64_t k = 0; k < k_count; k += 32, a += k_step, b += 1024) {
    fetcher.step();
    for (int pair = 0; pair < 16; ++pair) {
      const __m512bh b0 = pairs(_mm512_loadu_si512(b + pair * 32)),
                     b1 = pairs(_mm512_loadu_si512(b + 512 + pair * 32));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512bh x = broadcast_pair(a + r * stride + 2 * pair);
        acc[r][0] = _mm512_dpbf16_ps(acc[r][0], b0, x);
        acc[r][1] = _mm512_dpbf16_ps(acc[r][1], b1, x);
      }
    }
  }
}

template <typename Call>
inline std::int64_t steps_of(const Call& call) {
  return (call.rows + kRows - 1) / kRows * panels_of(call) * (depth_of(call) / 32);
}

template <Activation kActivation, int R>
void linear_rows(const LinearCall<BFloat16>& call, std::int64_t row, Fetcher& fetcher) {
  for (std::int64_t p = 0; p < call.panels; ++p) {
    __m512 acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    multiply<R>(call.input + row * call.input_stride, call.input_stride, 32,
                call.weight->panel(call.first_panel + p, call.first_k), depth_of(call), fetcher,
                acc);
    const float* bias = call.bias + (call.first_panel + p) * kPanel;
    const __m512 bias0 = _mm512_loadu_ps(bias), bias1 = _mm512_loadu_ps(bias + 16);
    BFloat16* output = call.output + row * call.output_stride + p * kPanel;
    for (int r = 0; r < R; ++r) {
      acc[r][0] = _mm512_add_ps(acc[r][0], bias0);
      acc[r][1] = _mm512_add_ps(acc[r][1], bias1);
      activate_bf16<kActivation>(acc[r]);
      store_bf16(output + r * call.output_stride, acc[r][0], acc[r][1]);
    }
  }
}

template <int R>
void accumulate_rows(const AccumulateCall<BFloat16>& call, const BFloat16* input, std::int64_t row,
                     Fetcher& fetcher) {
  const std::int64_t panels = panels_of(call);
  for (std::int64_t p = 0; p < panels; ++p) {
    float* output = call.output + row * call.output_stride + p * kPanel;
    __m512 acc[R][2];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < 2; ++i)
        acc[r][i] = call.overwrite ? _mm512_setzero_ps()
                                   : _mm512_loadu_ps(output + r * call.output_stride + 16 * i);
    multiply<R>(input, call.input_stride, call.k_step,
                call.weight->panel(call.first_panel + p, call.first_k), depth_of(call), fetcher,
                acc);
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < 2; ++i)
        _mm512_storeu_ps(output + r * call.output_stride + 16 * i, acc[r][i]);
  }
}

template <Activation kActivation, int R>
void linear_rest(const LinearCall<BFloat16>& call, std::int64_t row, Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (call.rows - row == R)
      linear_rows<kActivation, R>(call, row, fetcher);
    else
      linear_rest<kActivation, R - 1>(call, row, fetcher);
  }
}
template <int R>
void accumulate_rest(const AccumulateCall<BFloat16>& call, const BFloat16* input, std::int64_t row,
                     std::int64_t count, Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (count == R)
      accumulate_rows<R>(call, input, row, fetcher);
    else
      accumulate_rest<R - 1>(call, input, row, count, fetcher);
  }
}

template <Activation kActivation>
void linear_activated(const LinearCall<BFloat16>& call) {
  Fetcher fetcher(call.next, steps_of(call));
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows)
    linear_rows<kActivation, kRows>(call, row, fetcher);
  linear_rest<kActivation, kRows - 1>(call, row, fetcher);
}

void linear(const LinearCall<BFloat16>& call) {
  with_activation(call.activation,
                  [&]<Activation kActivation> { linear_activated<kActivation>(call); });
}

void accumulate(const AccumulateCall<BFloat16>& call) {
  const std::int64_t evenly = call.row_step == 0 ? call.rows : 32;
  const BFloat16* input = call.input;
  Fetcher fetcher(call.next, steps_of(call));
  for (std::int64_t first = 0; first < call.rows; first += evenly, input += call.row_step) {
    const std::int64_t last = first + evenly < call.rows ? first + evenly : call.rows;
    std::int64_t row = first;
    for (; row + kRows <= last; row += kRows)
      accumulate_rows<kRows>(call, input + (row - first) * call.input_stride, row, fetcher);
    accumulate_rest<kRows - 1>(call, input + (row - first) * call.input_stride, row, last - row,
                               fetcher);
  }
}

struct HeadScratch {
  BFloat16* keys;     // (head_size / 2, padded keys) pairs of dimensions
  BFloat16* values;   // (padded keys / 2, head_size) pairs of keys
  float* scores;      // (kQueries, padded keys)
  BFloat16* weights;  // (kQueries, padded keys)
};

void gather_head(const AttentionCall<BFloat16>& call, std::int64_t head, std::int64_t keys,
                 const HeadScratch& scratch) {
  const BFloat16* key = call.qkv + call.key_column + head * call.head_size;
  const BFloat16* value = call.qkv + call.value_column + head * call.head_size;
  for (std::int64_t i = 0; i < call.head_size; i += 32)
    for (std::int64_t t = 0; t < keys; t += 16) {
      __m512i rows[16];
      transpose_keys(call, key + i, t, rows);
      for (int j = 0; j < 16; ++j)
        _mm512_storeu_si512(scratch.keys + ((i / 2 + j) * keys + t) * 2, rows[j]);
    }
  for (std::int64_t t = 0; t < keys; t += 2)
    for (std::int64_t i = 0; i < call.head_size; i += 16) {
      const BFloat16* row0 = t < call.tokens ? value + t * call.qkv_stride + i : nullptr;
      const BFloat16* row1 = t + 1 < call.tokens ? value + (t + 1) * call.qkv_stride + i : nullptr;
      _mm512_storeu_si512(scratch.values + (t / 2 * call.head_size + i) * 2,
                          interleave_rows(row0, row1));
    }
}

template <int R>
void attend(const AttentionCall<BFloat16>& call, std::int64_t head, std::int64_t q,
            std::int64_t keys, const HeadScratch& scratch) {
  const BFloat16* query = call.qkv + q * call.qkv_stride + head * call.head_size;
  for (std::int64_t t = 0; t < keys; t += 32) {
    __m512 acc[R][2];
    const float* start = call.start == nullptr
                             ? nullptr
                             : call.start + head * call.start_head + q * call.start_stride + t;
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < 2; ++i)
        acc[r][i] = start == nullptr ? _mm512_setzero_ps()
                                     : _mm512_loadu_ps(start + r * call.start_stride + 16 * i);
    for (std::int64_t i = 0; i < call.head_size / 2; ++i) {
      const BFloat16* key = scratch.keys + (i * keys + t) * 2;
      const __m512bh k0 = pairs(_mm512_loadu_si512(key)), k1 = pairs(_mm512_loadu_si512(key + 32));
      for (int r = 0; r < R; ++r) {
        const __m512bh x = broadcast_pair(query + r * call.qkv_stride + 2 * i);
        acc[r][0] = _mm512_dpbf16_ps(acc[r][0], k0, x);
        acc[r][1] = _mm512_dpbf16_ps(acc[r][1], k1, x);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < 2; ++i)
        _mm512_storeu_ps(scratch.scores + r * keys + t + 16 * i, acc[r][i]);
  }
  float sums[R];
  for (int r = 0; r < R; ++r)
    sums[r] = softmax_row_bf16(scratch.scores + r * keys, scratch.weights + r * keys, call.tokens,
                               keys, call.scale);
  for (std::int64_t column = 0; column < call.head_size; column += 16) {
    __m512 acc[R];
    for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
    for (std::int64_t t = 0; t < keys; t += 2) {
      const __m512bh v =
          pairs(_mm512_loadu_si512(scratch.values + (t / 2 * call.head_size + column) * 2));
      for (int r = 0; r < R; ++r)
        acc[r] = _mm512_dpbf16_ps(acc[r], v, broadcast_pair(scratch.weights + r * keys + t));
    }
    for (int r = 0; r < R; ++r)
      store_bf16(call.output + (q + r) * call.output_stride + head * call.head_size + column,
                 _mm512_mul_ps(acc[r], _mm512_set1_ps(1.0F / sums[r])));
  }
}

template <int R>
void attend_rest(const AttentionCall<BFloat16>& call, std::int64_t head, std::int64_t q,
                 std::int64_t keys, const HeadScratch& scratch) {
  if constexpr (R > 0) {
    if (call.last_query() - q == R)
      attend<R>(call, head, q, keys, scratch);
    else
      attend_rest<R - 1>(call, head, q, keys, scratch);
  }
}

void attention(const AttentionCall<BFloat16>& call) {
  if (call.head_size % 32 != 0) {  // no encoder in use has such heads
    EncoderKernels<BFloat16> plain;
    set_generic(plain);
    return plain.attention(call);
  }
  const std::int64_t keys = round_up(call.tokens, 32);
  HeadScratch scratch{};
  scratch.keys = reinterpret_cast<BFloat16*>(call.scratch);
  scratch.values = scratch.keys + keys * call.head_size;
  scratch.weights = scratch.values + keys * call.head_size;
  scratch.scores = reinterpret_cast<float*>(scratch.weights + kQueries * keys);
  for (std::int64_t head = 0; head < call.heads; ++head) {
    gather_head(call, head, keys, scratch);
    std::int64_t q = call.first_query;
    for (; q + kQueries <= call.last_query(); q += kQueries)
      attend<kQueries>(call, head, q, keys, scratch);
    attend_rest<kQueries - 1>(call, head, q, keys, scratch);
  }
}

// Columns that fall by one from key to key: whole registers, those of the keys turned from (key,
// query) to (query, key).
void consecutive_scores(const RelativeScoresCall& call, std::int64_t q, std::int64_t k) {
  const std::int64_t column = call.columns[0] - call.first_column + q - k;
  __m512i from[16];
  for (int j = 0; j < 16; ++j)
    from[j] = _mm512_loadu_si512(call.from_position + (k + j) * call.stride + column - j);
  transpose_16x16(from);
  const __m512i backwards = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int i = 0; i < 16; ++i) {
    const __m512 to = _mm512_permutexvar_ps(
        backwards, _mm512_loadu_ps(call.to_position + (q + i) * call.stride + column + i - 15));
    _mm512_storeu_ps(call.scores + (q + i) * call.scores_stride + k,
                     _mm512_add_ps(to, _mm512_castsi512_ps(from[i])));
  }
}

void relative_scores(const RelativeScoresCall& call) {
  if (!call.consecutive) {
    EncoderKernels<BFloat16> plain;
    set_generic(plain);
    return plain.relative_scores(call);
  }
  for (std::int64_t q = 0; q < call.queries; q += 16)
    for (std::int64_t k = 0; k < call.keys; k += 16) consecutive_scores(call, q, k);
}

struct StoreRounded {
  static void vector(BFloat16* at, V16 value) { store_bf16(at, value.v); }
  static void one(BFloat16* at, float value) { *at = to_bf16(value); }
};

void layer_norm(const LayerNormCall<BFloat16>& call) {
  for (std::int64_t row = 0; row < call.rows; ++row) layer_norm_row<V16, StoreRounded>(call, row);
}

}  // namespace

void set_avx512_bf16(EncoderKernels<BFloat16>& kernels) {
  kernels.linear = linear;
  kernels.accumulate = accumulate;
  kernels.attention = attention;
  kernels.relative_scores = relative_scores;
  kernels.layer_norm = layer_norm;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
