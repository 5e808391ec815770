// Backward attention on AMX tiles: five small products per head. Products over keys take dS by
// rows; products over queries take P and dS as pairs of query rows, which is how a tile wants its
// second operand, so that nothing of size tokens x tokens is transposed.
#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

namespace gpuhpc::kernels {
namespace {

#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "simd_math.inl"

constexpr std::int64_t kTile = 512;  // bf16 values

// Tile loads are invisible to the compiler: what was stored by vectors must have been stored before
// them.
inline void stored_before_tiles() { asm volatile("" ::: "memory"); }

// N = tokens rounded up to 32, D = head size. Rows and columns beyond the document are zeros.
struct Scratch {
  BFloat16 *q, *g;              // (N, D)
  BFloat16 *k_tiles, *v_tiles;  // transposed: (D/32, N/16) tiles of 16 dimension pairs x 16 keys
  BFloat16* k_pairs;            // (N/32, D/16) tiles of 16 key pairs x 16 dimensions
  BFloat16 *q_columns, *g_columns;  // (D, N)
  BFloat16 *p_pairs, *ds_pairs;     // (N/2, N) pairs of query rows
  BFloat16* ds_rows;                // (32, N)
  float *scores, *slopes;           // (32, N)
  float* block;                     // (32, 32)
};

inline Scratch divide(std::byte* memory, std::int64_t n, std::int64_t d) {
  Scratch s{};
  auto* next = reinterpret_cast<BFloat16*>(memory);
  for (BFloat16** part :
       {&s.q, &s.g, &s.k_tiles, &s.v_tiles, &s.k_pairs, &s.q_columns, &s.g_columns}) {
    *part = next;
    next += n * d;
  }
  s.p_pairs = next;
  s.ds_pairs = s.p_pairs + n * n;
  s.ds_rows = s.ds_pairs + n * n;
  s.scores = reinterpret_cast<float*>(s.ds_rows + 32 * n);
  s.slopes = s.scores + 32 * n;
  s.block = s.slopes + 32 * n;
  return s;
}

// 16 rows of 32 values from row t on; rows beyond the document are zeros.
inline void load_rows(const BFloat16* from, std::int64_t stride, std::int64_t t,
                      std::int64_t tokens, __m512i (&rows)[16]) {
  for (int r = 0; r < 16; ++r)
    rows[r] = t + r < tokens ? _mm512_loadu_si512(from + (t + r) * stride) : _mm512_setzero_si512();
}

// Queries and gradients: by rows and by columns.
void gather_rows_and_columns(const BFloat16* from, std::int64_t stride, std::int64_t tokens,
                             std::int64_t n, std::int64_t d, BFloat16* rows_out,
                             BFloat16* columns) {
  for (std::int64_t i = 0; i < d; i += 32)
    for (std::int64_t t = 0; t < n; t += 16) {
      __m512i rows[16];
      load_rows(from + i, stride, t, tokens, rows);
      for (int r = 0; r < 16; ++r) _mm512_storeu_si512(rows_out + (t + r) * d + i, rows[r]);
      transpose_16x16(rows);
      for (int j = 0; j < 16; ++j) {  // dimensions 2j and 2j+1 of 16 rows
        BFloat16* to = columns + (i + 2 * j) * n + t;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(rows[j]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + n),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(rows[j], 16)));
      }
    }
}

// Keys and values: as transposed tiles; keys as tiles of pairs too.
void gather_tiles(const BFloat16* from, std::int64_t stride, std::int64_t tokens, std::int64_t n,
                  std::int64_t d, BFloat16* tiles) {
  for (std::int64_t i = 0; i < d; i += 32)
    for (std::int64_t t = 0; t < n; t += 16, tiles += kTile) {
      __m512i rows[16];
      load_rows(from + i, stride, t, tokens, rows);
      transpose_16x16(rows);
      for (int j = 0; j < 16; ++j) _mm512_storeu_si512(tiles + j * 32, rows[j]);
    }
}
void gather_pairs(const BFloat16* from, std::int64_t stride, std::int64_t tokens, std::int64_t n,
                  std::int64_t d, BFloat16* tiles) {
  for (std::int64_t t = 0; t < n; t += 32)
    for (std::int64_t i = 0; i < d; i += 16, tiles += kTile)
      for (std::int64_t j = 0; j < 16; ++j) {
        const std::int64_t row = t + 2 * j;
        _mm512_storeu_si512(
            tiles + j * 32,
            interleave_rows(row < tokens ? from + row * stride + i : nullptr,
                            row + 1 < tokens ? from + (row + 1) * stride + i : nullptr));
      }
}

inline void zero_tiles() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
// Tiles 0-3, a 32 x 32 block, += (tiles at a and 16 rows below) x (tiles b0, b1).
inline void multiply(const BFloat16* a, std::int64_t a_stride, const BFloat16* b0,
                     const BFloat16* b1, std::int64_t b_stride) {
  _tile_loadd(6, b0, b_stride * 2);
  _tile_loadd(4, a, a_stride * 2);
  _tile_loadd(7, b1, b_stride * 2);
  _tile_loadd(5, a + 16 * a_stride, a_stride * 2);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}
inline void store_block(float* c, std::int64_t stride) {
  _tile_stored(0, c, stride * 4);
  _tile_stored(1, c + 16, stride * 4);
  _tile_stored(2, c + 16 * stride, stride * 4);
  _tile_stored(3, c + 16 * stride + 16, stride * 4);
}

// out (32, N) = 32 rows (D) x all columns.
inline void all_keys(const BFloat16* rows, const BFloat16* tiles, std::int64_t n, std::int64_t d,
                     float* out) {
  for (std::int64_t t = 0; t < n / 16; t += 2) {
    zero_tiles();
    for (std::int64_t i = 0; i < d / 32; ++i) {
      const BFloat16* b = tiles + (i * (n / 16) + t) * kTile;
      multiply(rows + i * 32, d, b, b + kTile, 32);
    }
    store_block(out + t * 16, n);
  }
}

// e^(scale (s - max)) in place; *sum of them, *dot = sum weighted by the slopes.
inline void exponentials(float* scores, const float* slopes, std::int64_t tokens, std::int64_t n,
                         float scale, float* sum, float* dot) {
  __m512 highest = load_scores(scores, 0, tokens);
  for (std::int64_t t = 16; t < tokens; t += 16)
    highest = _mm512_max_ps(highest, load_scores(scores, t, tokens));
  const float factor = scale * 1.44269504F;
  const __m512 factors = _mm512_set1_ps(factor),
               top = _mm512_set1_ps(_mm512_reduce_max_ps(highest) * factor);
  __m512 sums = _mm512_setzero_ps(), dots = _mm512_setzero_ps();
  for (std::int64_t t = 0; t < n; t += 16) {
    const __m512 e =
        power_of_two_bf16(_mm512_fmsub_ps(load_scores(scores, t, tokens), factors, top));
    _mm512_storeu_ps(scores + t, e);
    sums = _mm512_add_ps(sums, e);
    dots = _mm512_fmadd_ps(e, _mm512_loadu_ps(slopes + t), dots);
  }
  *sum = _mm512_reduce_add_ps(sums);
  *dot = _mm512_reduce_add_ps(dots);
}

struct RowFactors {
  __m512 inverse, mean, scale;  // P = e inverse; dS = P (dP - mean) scale
};

// Two rows of P and dS as pairs; dS by rows too.
inline void write_pair(const float* scores, const float* slopes, std::int64_t n,
                       const RowFactors (&f)[2], BFloat16* p, BFloat16* ds, BFloat16* ds_rows) {
  alignas(64) static constexpr std::uint16_t order[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleave = _mm512_load_si512(order);
  for (std::int64_t t = 0; t < n; t += 16) {
    __m512 share[2], slope[2];
    for (int r = 0; r < 2; ++r) {
      share[r] = _mm512_mul_ps(_mm512_loadu_ps(scores + r * n + t), f[r].inverse);
      slope[r] = _mm512_mul_ps(_mm512_mul_ps(share[r], f[r].scale),
                               _mm512_sub_ps(_mm512_loadu_ps(slopes + r * n + t), f[r].mean));
    }
    const __m512i shares = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(share[1], share[0]));
    const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(slope[1], slope[0]));
    _mm512_storeu_si512(p + 2 * t, _mm512_permutexvar_epi16(interleave, shares));
    _mm512_storeu_si512(ds + 2 * t, _mm512_permutexvar_epi16(interleave, both));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ds_rows + t), _mm512_castsi512_si256(both));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ds_rows + n + t),
                        _mm512_extracti64x4_epi64(both, 1));
  }
}

// 32 queries from q on: P and dS to scratch, dQ to the result.
void differentiate_queries(const AttentionGradientCall<BFloat16>& call, const Scratch& s,
                           std::int64_t q, std::int64_t n, BFloat16* result) {
  const std::int64_t d = call.head_size, count = call.tokens - q < 32 ? call.tokens - q : 32;
  all_keys(s.q + q * d, s.k_tiles, n, d, s.scores);
  all_keys(s.g + q * d, s.v_tiles, n, d, s.slopes);
  for (std::int64_t r = 0; r < 32; r += 2) {
    RowFactors factors[2];
    for (int j = 0; j < 2; ++j) {  // rows beyond the document: P and dS are zeros
      float sum = 1, dot = 0;
      const bool real = r + j < count;
      if (real)
        exponentials(s.scores + (r + j) * n, s.slopes + (r + j) * n, call.tokens, n, call.scale,
                     &sum, &dot);
      factors[j] = {_mm512_set1_ps(real ? 1.0F / sum : 0.0F), _mm512_set1_ps(dot / sum),
                    _mm512_set1_ps(call.scale)};
    }
    const std::int64_t pair = (q + r) / 2 * 2 * n;
    write_pair(s.scores + r * n, s.slopes + r * n, n, factors, s.p_pairs + pair, s.ds_pairs + pair,
               s.ds_rows + r * n);
  }
  stored_before_tiles();
  for (std::int64_t i = 0; i < d / 32; ++i) {
    zero_tiles();
    for (std::int64_t t = 0; t < n / 32; ++t) {
      const BFloat16* b = s.k_pairs + (t * (d / 16) + 2 * i) * kTile;
      multiply(s.ds_rows + t * 32, n, b, b + kTile, 32);
    }
    store_block(s.block, 32);
    for (std::int64_t r = 0; r < count; ++r)
      store_bf16(result + (q + r) * call.result_stride + i * 32, _mm512_loadu_ps(s.block + r * 32),
                 _mm512_loadu_ps(s.block + r * 32 + 16));
  }
}

// result rows = pairs^T x rows, taken as columns (D, N) x pairs (N, N): dV from P, dK from dS.
void over_queries(const BFloat16* columns, const BFloat16* pairs, const Scratch& s,
                  std::int64_t tokens, std::int64_t n, std::int64_t d, BFloat16* result,
                  std::int64_t stride) {
  for (std::int64_t i = 0; i < d; i += 32)
    for (std::int64_t t = 0; t < tokens; t += 32) {
      zero_tiles();
      for (std::int64_t q = 0; q < n; q += 32) {
        const BFloat16* b = pairs + q * n + t * 2;
        multiply(columns + i * n + q, n, b, b + 32, 2 * n);
      }
      store_block(s.block, 32);  // (32 dimensions, 32 keys)
      for (std::int64_t half = 0; half < 32 && t + half < tokens; half += 16) {
        __m512i low[16], high[16];
        for (int r = 0; r < 16; ++r) {
          low[r] = _mm512_loadu_si512(s.block + r * 32 + half);
          high[r] = _mm512_loadu_si512(s.block + (r + 16) * 32 + half);
        }
        transpose_16x16(low);
        transpose_16x16(high);
        for (int r = 0; r < 16 && t + half + r < tokens; ++r)
          store_bf16(result + (t + half + r) * stride + i, _mm512_castsi512_ps(low[r]),
                     _mm512_castsi512_ps(high[r]));
      }
    }
}

void attention_gradient(const AttentionGradientCall<BFloat16>& call) {
  if (call.head_size % 32 != 0 || call.start != nullptr || call.dropout.threshold > 0) {
    TrainingKernels<BFloat16> vectors;
    set_avx512_bf16(vectors);
    return vectors.attention_gradient(call);
  }
  const std::int64_t d = call.head_size, n = round_up(call.tokens, 32);
  const Scratch s = divide(call.scratch, n, d);
  for (std::int64_t head = 0; head < call.heads; ++head) {
    const BFloat16* qkv = call.qkv + head * d;
    gather_rows_and_columns(qkv, call.qkv_stride, call.tokens, n, d, s.q, s.q_columns);
    gather_rows_and_columns(call.gradient + head * d, call.gradient_stride, call.tokens, n, d, s.g,
                            s.g_columns);
    gather_tiles(qkv + call.key_column, call.qkv_stride, call.tokens, n, d, s.k_tiles);
    gather_tiles(qkv + call.value_column, call.qkv_stride, call.tokens, n, d, s.v_tiles);
    gather_pairs(qkv + call.key_column, call.qkv_stride, call.tokens, n, d, s.k_pairs);
    stored_before_tiles();
    BFloat16* result = call.result + head * d;
    for (std::int64_t q = 0; q < call.tokens; q += 32) differentiate_queries(call, s, q, n, result);
    over_queries(s.q_columns, s.ds_pairs, s, call.tokens, n, d, result + call.key_column,
                 call.result_stride);
    over_queries(s.g_columns, s.p_pairs, s, call.tokens, n, d, result + call.value_column,
                 call.result_stride);
  }
}

}  // namespace

void set_amx(TrainingKernels<BFloat16>& kernels) {
  kernels.attention_gradient = attention_gradient;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
