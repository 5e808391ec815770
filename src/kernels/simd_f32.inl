// fp32 kernels for any vector width: included inside the anonymous namespace of an instruction-set file, after its target pragma
// and simd_math.inl. V wraps one register; kRows x 2 registers accumulate.

// R rows x 2 registers: acc += a x b; b advances one panel row (32 columns) a step.
template <typename V, int R>
inline void multiply(const float* a, std::int64_t stride, std::int64_t k_step, const float* b, std::int64_t k_count, V (&acc)[R][2]) {
  for (std::int64_t block = 0; block < k_count; block += 32, a += k_step)
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

template <typename V, int R>
void linear_rows(const LinearCall<float>& call, std::int64_t row) {
  const float* input = call.input + row * call.input_stride;
  for (std::int64_t p = 0; p < call.panels; ++p)
    for (std::int64_t column = 0; column < kPanel; column += 2 * V::kWidth) {
      V acc[R][2];
      for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0.0F);
      multiply<V, R>(input, call.input_stride, 32, call.weight->panel(call.first_panel + p, call.first_k) + column, depth_of(call), acc);
      const float* bias = call.bias + (call.first_panel + p) * kPanel + column;
      float* output = call.output + row * call.output_stride + p * kPanel + column;
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i)
          V::store(output + r * call.output_stride + i * V::kWidth,
                   activate(acc[r][i] + V::load(bias + i * V::kWidth), call.activation));
    }
}

template <typename V, int R>
void accumulate_rows(const AccumulateCall<float>& call, const float* input, std::int64_t row) {
  const std::int64_t panels = panels_of(call);
  for (std::int64_t p = 0; p < panels; ++p)
    for (std::int64_t column = 0; column < kPanel; column += 2 * V::kWidth) {
      float* output = call.output + row * call.output_stride + p * kPanel + column;
      V acc[R][2];
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i) acc[r][i] = call.overwrite ? V::set(0.0F) : V::load(output + r * call.output_stride + i * V::kWidth);
      multiply<V, R>(input, call.input_stride, call.k_step, call.weight->panel(call.first_panel + p, call.first_k) + column, depth_of(call), acc);
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < 2; ++i) V::store(output + r * call.output_stride + i * V::kWidth, acc[r][i]);
    }
}

// The last rows, fewer than a full block.
template <typename V, int R>
void linear_rest(const LinearCall<float>& call, std::int64_t row) {
  if constexpr (R > 0) {
    if (call.rows - row == R) linear_rows<V, R>(call, row);
    else linear_rest<V, R - 1>(call, row);
  }
}
template <typename V, int R>
void accumulate_rest(const AccumulateCall<float>& call, const float* input, std::int64_t row, std::int64_t count) {
  if constexpr (R > 0) {
    if (count == R) accumulate_rows<V, R>(call, input, row);
    else accumulate_rest<V, R - 1>(call, input, row, count);
  }
}

template <typename V>
void linear_f32(const LinearCall<float>& call) {
  std::int64_t row = 0;
  for (; row + V::kRows <= call.rows; row += V::kRows) linear_rows<V, V::kRows>(call, row);
  linear_rest<V, V::kRows - 1>(call, row);
}

template <typename V>
void accumulate_f32(const AccumulateCall<float>& call) {
  const std::int64_t evenly = call.row_step == 0 ? call.rows : 32;
  const float* input = call.input;
  for (std::int64_t first = 0; first < call.rows; first += evenly, input += call.row_step) {
    const std::int64_t last = first + evenly < call.rows ? first + evenly : call.rows;
    std::int64_t row = first;
    for (; row + V::kRows <= last; row += V::kRows) accumulate_rows<V, V::kRows>(call, input + (row - first) * call.input_stride, row);
    accumulate_rest<V, V::kRows - 1>(call, input + (row - first) * call.input_stride, row, last - row);
  }
}

// Keys transposed to (head_size, padded keys) and values to (tokens, padded head_size) of one head.
template <typename V>
void gather_head(const AttentionCall<float>& call, std::int64_t head, std::int64_t keys, std::int64_t width, float* key_columns, float* values) {
  const float* key = call.qkv + call.key_column + head * call.head_size;
  const float* value = call.qkv + call.value_column + head * call.head_size;
  for (std::int64_t t = 0; t < call.tokens; ++t, key += call.qkv_stride, value += call.qkv_stride)
    for (std::int64_t i = 0; i < call.head_size; ++i) {
      key_columns[i * keys + t] = key[i];
      values[t * width + i] = value[i];
    }
  for (std::int64_t i = 0; i < call.head_size; ++i)
    for (std::int64_t t = call.tokens; t < keys; ++t) key_columns[i * keys + t] = 0.0F;
  for (std::int64_t i = call.head_size; i < width; ++i)
    for (std::int64_t t = 0; t < call.tokens; ++t) values[t * width + i] = 0.0F;
}

// Scores of R queries to weights in place, not yet divided by their sums.
template <typename V, int R>
void softmax_rows(float* scores, std::int64_t keys, std::int64_t tokens, float scale, float* sums) {
  for (int r = 0; r < R; ++r) {
    float* row = scores + r * keys;
    for (std::int64_t t = tokens; t < keys; ++t) row[t] = -1e30F;
    V highest = V::load(row);
    for (std::int64_t t = V::kWidth; t < keys; t += V::kWidth) highest = V::max(highest, V::load(row + t));
    const V top = V::set(V::highest(highest)), factor = V::set(scale);
    V sum = V::set(0.0F);
    for (std::int64_t t = 0; t < keys; t += V::kWidth) {
      const V weight = exp_exact((V::load(row + t) - top) * factor);
      V::store(row + t, weight);
      sum = sum + weight;
    }
    sums[r] = V::sum(sum);
  }
}

template <typename V, int R>
void attend(const AttentionCall<float>& call, std::int64_t head, std::int64_t q, std::int64_t keys, std::int64_t width,
            const float* key_columns, const float* values, float* scores) {
  const float* query = call.qkv + q * call.qkv_stride + head * call.head_size;
  for (std::int64_t t = 0; t < keys; t += 2 * V::kWidth) {
    V acc[R][2];
    const float* start = call.start == nullptr ? nullptr : call.start + q * call.start_stride + t;
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < 2; ++i) acc[r][i] = start == nullptr ? V::set(0.0F) : V::load(start + r * call.start_stride + i * V::kWidth);
    for (std::int64_t i = 0; i < call.head_size; ++i) {
      const V k0 = V::load(key_columns + i * keys + t), k1 = V::load(key_columns + i * keys + t + V::kWidth);
      for (int r = 0; r < R; ++r) {
        const V x = V::set(query[r * call.qkv_stride + i]);
        acc[r][0] = V::fma(x, k0, acc[r][0]);
        acc[r][1] = V::fma(x, k1, acc[r][1]);
      }
    }
    for (int r = 0; r < R; ++r) {
      V::store(scores + r * keys + t, acc[r][0]);
      V::store(scores + r * keys + t + V::kWidth, acc[r][1]);
    }
  }
  float sums[R];
  softmax_rows<V, R>(scores, keys, call.tokens, call.scale, sums);
  for (std::int64_t column = 0; column < width; column += 2 * V::kWidth) {
    V acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0.0F);
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      const V v0 = V::load(values + t * width + column), v1 = V::load(values + t * width + column + V::kWidth);
      for (int r = 0; r < R; ++r) {
        const V x = V::set(scores[r * keys + t]);
        acc[r][0] = V::fma(x, v0, acc[r][0]);
        acc[r][1] = V::fma(x, v1, acc[r][1]);
      }
    }
    for (int r = 0; r < R; ++r) {
      float row[2 * V::kWidth];
      V::store(row, acc[r][0] * V::set(1.0F / sums[r]));
      V::store(row + V::kWidth, acc[r][1] * V::set(1.0F / sums[r]));
      float* output = call.output + (q + r) * call.output_stride + head * call.head_size + column;
      const std::int64_t count = call.head_size - column < 2 * V::kWidth ? call.head_size - column : 2 * V::kWidth;
      __builtin_memcpy(output, row, static_cast<std::size_t>(count) * sizeof(float));
    }
  }
}

template <typename V, int R>
void attend_rest(const AttentionCall<float>& call, std::int64_t head, std::int64_t q, std::int64_t keys, std::int64_t width,
                 const float* key_columns, const float* values, float* scores) {
  if constexpr (R > 0) {
    if (call.tokens - q == R) attend<V, R>(call, head, q, keys, width, key_columns, values, scores);
    else attend_rest<V, R - 1>(call, head, q, keys, width, key_columns, values, scores);
  }
}

template <typename V>
void attention_f32(const AttentionCall<float>& call) {
  constexpr int kQueries = V::kRows < 6 ? V::kRows : 6;
  const std::int64_t keys = round_up(call.tokens, 32), width = round_up(call.head_size, 32);
  float* key_columns = reinterpret_cast<float*>(call.scratch);
  float* values = key_columns + width * keys;
  float* scores = values + width * keys;
  for (std::int64_t head = 0; head < call.heads; ++head) {
    gather_head<V>(call, head, keys, width, key_columns, values);
    std::int64_t q = 0;
    for (; q + kQueries <= call.tokens; q += kQueries)
      attend<V, kQueries>(call, head, q, keys, width, key_columns, values, scores);
    attend_rest<V, kQueries - 1>(call, head, q, keys, width, key_columns, values, scores);
  }
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
  kernels.attention = attention_f32<V>;
  kernels.layer_norm = layer_norm_f32<V>;
}
