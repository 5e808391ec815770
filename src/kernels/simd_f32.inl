#pragma once
// fp32 kernels for any vector width: included inside the anonymous namespace of an instruction-set
// file, after its target pragma and a vector. V wraps one register; kRows x 2 registers accumulate.
#include "fetcher.inl"
#include "simd_math.inl"

// R rows x 2 registers: acc += a x b; b advances one panel row (32 columns) a step.
template <typename V, int R>
inline void multiply(const float* a, std::int64_t stride, std::int64_t k_step, const float* b,
                     std::int64_t k_count, Fetcher& fetcher, V (&acc)[R][2]) {
  for (std::int64_t block = 0; block < k_count; block += 32, a += k_step) {
    fetcher.step();
    for (std::int64_t k = 0; k < 32; ++k, b += kPanel) {
      const V b0 = V::load(b), b1 = V::load(b + V::kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const V x = V::set(a[r * stride + k]);
        acc[r][0] = V::fma(x, b0, acc[r][0]);
        acc[r][1] = V::fma(x, b1, acc[r][1]);
      }
    }
  }
}

// The steps of a product whose panels are read for every kRows rows.
template <typename V, typename Call>
inline std::int64_t steps_of(const Call& call) {
  return (call.rows + V::kRows - 1) / V::kRows * panels_of(call) * (kPanel / (2 * V::kWidth)) *
         (depth_of(call) / 32);
}

template <typename V, int R>
void linear_rows(const LinearCall<float>& call, std::int64_t row, Fetcher& fetcher) {
  const float* input = call.input + row * call.input_stride;
  for (std::int64_t p = 0; p < call.panels; ++p)
    for (std::int64_t column = 0; column < kPanel; column += 2 * V::kWidth) {
      V acc[R][2];
      for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0.0F);
      multiply<V, R>(input, call.input_stride, 32,
                     call.weight->panel(call.first_panel + p, call.first_k) + column,
                     depth_of(call), fetcher, acc);
      const float* bias = call.bias + (call.first_panel + p) * kPanel + column;
      float* output = call.output + row * call.output_stride + p * kPanel + column;
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i)
          V::store(output + r * call.output_stride + i * V::kWidth,
                   activate(acc[r][i] + V::load(bias + i * V::kWidth), call.activation));
    }
}

template <typename V, int R>
void accumulate_rows(const AccumulateCall<float>& call, const float* input, std::int64_t row,
                     Fetcher& fetcher) {
  const std::int64_t panels = panels_of(call);
  for (std::int64_t p = 0; p < panels; ++p)
    for (std::int64_t column = 0; column < kPanel; column += 2 * V::kWidth) {
      float* output = call.output + row * call.output_stride + p * kPanel + column;
      V acc[R][2];
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i)
          acc[r][i] = call.overwrite ? V::set(0.0F)
                                     : V::load(output + r * call.output_stride + i * V::kWidth);
      multiply<V, R>(input, call.input_stride, call.k_step,
                     call.weight->panel(call.first_panel + p, call.first_k) + column,
                     depth_of(call), fetcher, acc);
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i)
          V::store(output + r * call.output_stride + i * V::kWidth, acc[r][i]);
    }
}

// The last rows, fewer than a full block.
template <typename V, int R>
void linear_rest(const LinearCall<float>& call, std::int64_t row, Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (call.rows - row == R)
      linear_rows<V, R>(call, row, fetcher);
    else
      linear_rest<V, R - 1>(call, row, fetcher);
  }
}
template <typename V, int R>
void accumulate_rest(const AccumulateCall<float>& call, const float* input, std::int64_t row,
                     std::int64_t count, Fetcher& fetcher) {
  if constexpr (R > 0) {
    if (count == R)
      accumulate_rows<V, R>(call, input, row, fetcher);
    else
      accumulate_rest<V, R - 1>(call, input, row, count, fetcher);
  }
}

template <typename V>
void linear_f32(const LinearCall<float>& call) {
  Fetcher fetcher(call.next, steps_of<V>(call));
  std::int64_t row = 0;
  for (; row + V::kRows <= call.rows; row += V::kRows) linear_rows<V, V::kRows>(call, row, fetcher);
  linear_rest<V, V::kRows - 1>(call, row, fetcher);
}

template <typename V>
void accumulate_f32(const AccumulateCall<float>& call) {
  const std::int64_t evenly = call.row_step == 0 ? call.rows : 32;
  const float* input = call.input;
  Fetcher fetcher(call.next, steps_of<V>(call));
  for (std::int64_t first = 0; first < call.rows; first += evenly, input += call.row_step) {
    const std::int64_t last = first + evenly < call.rows ? first + evenly : call.rows;
    std::int64_t row = first;
    for (; row + V::kRows <= last; row += V::kRows)
      accumulate_rows<V, V::kRows>(call, input + (row - first) * call.input_stride, row, fetcher);
    accumulate_rest<V, V::kRows - 1>(call, input + (row - first) * call.input_stride, row,
                                     last - row, fetcher);
  }
}

// Io<T, V> moves registers and single values between memory of T and fp32.
template <typename T, typename V>
struct Io;
template <typename V>
struct Io<float, V> {
  static V load(const float* p) { return V::load(p); }
  static void store(float* p, V v) { V::store(p, v); }
  static float one(const float* p) { return *p; }
  static void store_one(float* p, float v) { *p = v; }
};

// The last columns go through an array.
template <typename T, typename V>
inline V load_some(const T* p, std::int64_t count) {
  if (count >= V::kWidth) return Io<T, V>::load(p);
  float lanes[V::kWidth] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = Io<T, V>::one(p + i);
  return V::load(lanes);
}
template <typename T, typename V>
inline void store_some(T* p, V v, std::int64_t count) {
  if (count >= V::kWidth) return Io<T, V>::store(p, v);
  float lanes[V::kWidth];
  V::store(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) Io<T, V>::store_one(p + i, lanes[i]);
}

// kWidth rows of kWidth values transposed: halves interleaved as often as the width can be halved.
template <typename V>
inline void transpose(V (&rows)[V::kWidth]) {
  constexpr int half = V::kWidth / 2, rounds = V::kWidth == 16 ? 4 : 3;
#pragma GCC unroll 4
  for (int round = 0; round < rounds; ++round) {
    V next[V::kWidth];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) V::zip(rows[i], rows[half + i], next[2 * i], next[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < V::kWidth; ++i) rows[i] = next[i];
  }
}

// Sizes of one head's fp32 copies, whose padding holds zeros.
template <typename V>
struct HeadShape {
  std::int64_t tokens, size;
  std::int64_t keys = round_up(tokens, V::kWidth), width = round_up(size, V::kWidth);
  std::int64_t stride =
      (round_up(tokens, 16) / 16 | 1) *
      16;  // of rows of keys: an odd number of cache lines, to use all of the cache's sets
};

// One head, (tokens, size) in T, to rows (keys, width) and to columns (width, stride); either may
// be null.
template <typename T, typename V>
inline void take_head(const T* from, std::int64_t from_stride, const HeadShape<V>& shape,
                      float* rows, float* columns) {
  for (std::int64_t t = 0; t < shape.keys; t += V::kWidth)
    for (std::int64_t i = 0; i < shape.width; i += V::kWidth) {
      V block[V::kWidth];
#pragma GCC unroll 16
      for (int r = 0; r < V::kWidth; ++r) {
        block[r] = t + r < shape.tokens
                       ? load_some<T, V>(from + (t + r) * from_stride + i, shape.size - i)
                       : V::set(0.0F);
        if (rows != nullptr) V::store(rows + (t + r) * shape.width + i, block[r]);
      }
      if (columns == nullptr) continue;
      transpose(block);
#pragma GCC unroll 16
      for (int r = 0; r < V::kWidth; ++r) V::store(columns + (i + r) * shape.stride + t, block[r]);
    }
}

// Rows that products of heads accumulate at once, two registers each.
template <typename V>
constexpr int kHeadRows = V::kWidth / 2;

template <typename V, int J, typename Read, typename Write>
inline void product_columns(const float* a, std::int64_t a_row, std::int64_t a_step, const float* b,
                            std::int64_t b_row, std::int64_t depth, std::int64_t column,
                            const Read& read, const Write& write) {
  constexpr int R = kHeadRows<V>;
  V acc[R][J];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < J; ++j) acc[r][j] = read(r, column + j * V::kWidth);
  b += column;
  for (std::int64_t k = 0; k < depth; ++k, a += a_step, b += b_row) {
    V row[J];
#pragma GCC unroll 2
    for (int j = 0; j < J; ++j) row[j] = V::load(b + j * V::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V x = V::set(a[r * a_row]);
#pragma GCC unroll 2
      for (int j = 0; j < J; ++j) acc[r][j] = V::fma(x, row[j], acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < J; ++j) write(r, column + j * V::kWidth, acc[r][j]);
}

// kHeadRows rows of a product: element (r, c) = read(r, c) + sum over k < depth of a[r a_row + k
// a_step] b[k b_row + c] goes to write(r, c, registers), c over `columns`, a multiple of kWidth.
template <typename V, typename Read, typename Write>
inline void product(const float* a, std::int64_t a_row, std::int64_t a_step, const float* b,
                    std::int64_t b_row, std::int64_t depth, std::int64_t columns, const Read& read,
                    const Write& write) {
  std::int64_t column = 0;
  for (; column + 2 * V::kWidth <= columns; column += 2 * V::kWidth)
    product_columns<V, 2>(a, a_row, a_step, b, b_row, depth, column, read, write);
  if (column < columns)
    product_columns<V, 1>(a, a_row, a_step, b, b_row, depth, column, read, write);
}

// kHeadRows rows of scores to weights e^(scale (score - highest of its row)), zeros behind the
// tokens; sums: of each row, register by register. each(r, t, weights) sees them pass. Weights end
// at e^-50: lower ones count in no sum, and what is computed from them would be denormal, where
// processors are slow.
template <typename V, typename Each>
inline void exponentials(float* scores, const HeadShape<V>& shape, float scale,
                         V (&sums)[kHeadRows<V>], Each&& each) {
  const std::int64_t last = shape.keys - V::kWidth, left = shape.tokens - last;
  const V factor = V::set(scale), lowest = V::set(-50.0F);
  V tops[kHeadRows<V>];
  for (int r = 0; r < kHeadRows<V>; ++r) {
    float* row = scores + r * shape.stride;
    V highest = V::first(V::load(row + last), V::set(-1e30F), left);
    V::store(row + last, highest);
    for (std::int64_t t = 0; t < last; t += V::kWidth) highest = V::max(highest, V::load(row + t));
    tops[r] = V::set(V::highest(highest));
  }
  for (int r = 0; r < kHeadRows<V>; ++r) {
    float* row = scores + r * shape.stride;
    V sum = V::set(0.0F);
    const auto weigh = [&](std::int64_t t) {
      return exp_exact(V::max((V::load(row + t) - tops[r]) * factor, lowest));
    };
    const auto keep = [&](std::int64_t t, V weights) {
      V::store(row + t, weights);
      sum = sum + weights;
      each(r, t, weights);
    };
    for (std::int64_t t = 0; t < last; t += V::kWidth) keep(t, weigh(t));
    keep(last, V::first(weigh(last), V::set(0.0F), left));
    sums[r] = sum;
  }
}

// One head after another. see(head, q, weights, stride) makes what sees the weights of kHeadRows
// queries from q on pass, as `each` of exponentials(), and may change them where they stand.
template <typename T, typename V, typename See>
void attention_vectors(const AttentionCall<T>& call, const See& see) {
  constexpr int R = kHeadRows<V>;
  const HeadShape<V> shape{call.tokens, call.head_size};
  float* key_columns = reinterpret_cast<float*>(call.scratch);
  float* values = key_columns + shape.width * shape.stride;
  float* scores = values + shape.keys * shape.width;
  float* queries = scores + R * shape.stride;  // R rows, where T is not float
  for (std::int64_t head = 0; head < call.heads; ++head) {
    const T* qkv = call.qkv + head * call.head_size;
    take_head<T, V>(qkv + call.key_column, call.qkv_stride, shape, nullptr, key_columns);
    take_head<T, V>(qkv + call.value_column, call.qkv_stride, shape, values, nullptr);
    for (std::int64_t q = call.first_query; q < call.last_query(); q += R) {
      const float* start = call.start == nullptr
                               ? nullptr
                               : call.start + head * call.start_head + q * call.start_stride;
      const float* rows = queries;
      std::int64_t row_stride = shape.width;
      if constexpr (sizeof(T) == sizeof(float))
        rows = qkv + q * call.qkv_stride, row_stride = call.qkv_stride;
      else
        for (int r = 0; r < R && q + r < call.last_query(); ++r)
          for (std::int64_t i = 0; i < shape.width; i += V::kWidth)
            V::store(queries + r * shape.width + i,
                     load_some<T, V>(qkv + (q + r) * call.qkv_stride + i, shape.size - i));
      product<V>(
          rows, row_stride, 1, key_columns, shape.stride, call.head_size, shape.keys,
          [&](int r, std::int64_t t) {
            return start == nullptr ? V::set(0.0F) : V::load(start + r * call.start_stride + t);
          },
          [&](int r, std::int64_t t, V v) { V::store(scores + r * shape.stride + t, v); });
      V sums[R], factors[R];
      exponentials(scores, shape, call.scale, sums, see(head, q, scores, shape.stride));
      for (int r = 0; r < R; ++r) factors[r] = V::set(1.0F / V::sum(sums[r]));
      T* output = call.output + q * call.output_stride + head * call.head_size;
      product<V>(
          scores, shape.stride, 1, values, shape.width, call.tokens, shape.width,
          [](int, std::int64_t) { return V::set(0.0F); },
          [&](int r, std::int64_t i, V v) {
            if (q + r < call.last_query())
              store_some<T, V>(output + r * call.output_stride + i, v * factors[r],
                               call.head_size - i);
          });
    }
  }
}

// In fp32, whatever T is.
template <typename T, typename V>
void attention_f32(const AttentionCall<T>& call) {
  attention_vectors<T, V>(call, [](std::int64_t, std::int64_t, float*, std::int64_t) {
    return [](int, std::int64_t, V) {};
  });
}

template <typename V>
struct StoreFloats {
  static void vector(float* at, V value) { V::store(at, value); }
  static void one(float* at, float value) { *at = value; }
};

template <typename V>
void layer_norm_f32(const LayerNormCall<float>& call) {
  for (std::int64_t row = 0; row < call.rows; ++row) layer_norm_row<V, StoreFloats<V>>(call, row);
}

template <typename V>
void set_f32(EncoderKernels<float>& kernels) {
  kernels.linear = linear_f32<V>;
  kernels.accumulate = accumulate_f32<V>;
  kernels.attention = attention_f32<float, V>;
  kernels.layer_norm = layer_norm_f32<V>;
}
