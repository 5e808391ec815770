// Training kernels for any vector width: included inside the anonymous namespace of an instruction-set file, after its target pragma
// and simd_math.inl. V wraps one register; Io<T, V> moves registers and single values between memory of T and fp32.

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

template <typename V>
inline void add_to(float* sums, V v, std::int64_t count) {
  store_some<float, V>(sums, load_some<float, V>(sums, count) + v, count);
}

template <typename T, typename V>
void add_norm_simd(const AddNormCall<T>& call) {
  const std::int64_t columns = call.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * columns;
    float* normalised = call.normalised + start;
    V sum = V::set(0.0F);
    for (std::int64_t i = 0; i < columns; i += V::kWidth) {
      const V s = load_some<float, V>(call.residual + start + i, columns - i) + load_some<T, V>(call.change + start + i, columns - i);
      store_some<float, V>(normalised + i, s, columns - i);
      sum = sum + s;
    }
    const float mean = V::sum(sum) * inverse;
    float squares = 0;
    V square = V::set(0.0F);
    std::int64_t i = 0;
    for (; i + V::kWidth <= columns; i += V::kWidth) {
      const V d = V::load(normalised + i) - V::set(mean);
      square = V::fma(d, d, square);
    }
    for (; i < columns; ++i) squares += (normalised[i] - mean) * (normalised[i] - mean);
    const float factor = 1.0F / __builtin_sqrtf((V::sum(square) + squares) * inverse + call.epsilon);
    call.factors[r] = factor;
    for (i = 0; i < columns; i += V::kWidth) {
      const V n = (load_some<float, V>(normalised + i, columns - i) - V::set(mean)) * V::set(factor);
      const V out = V::fma(n, load_some<float, V>(call.gamma + i, columns - i), load_some<float, V>(call.beta + i, columns - i));
      store_some<float, V>(normalised + i, n, columns - i);
      store_some<float, V>(call.output + start + i, out, columns - i);
      store_some<T, V>(call.rounded + start + i, out, columns - i);
    }
  }
}

template <typename T, typename V>
void add_norm_gradient_simd(const AddNormGradientCall<T>& call) {
  const std::int64_t columns = call.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * columns;
    const float* normalised = call.normalised + start;
    float* result = call.result + start;
    V mean = V::set(0.0F), product = V::set(0.0F);
    for (std::int64_t i = 0; i < columns; i += V::kWidth) {
      V g = load_some<float, V>(call.gradient + start + i, columns - i);
      if (call.more != nullptr) g = g + load_some<T, V>(call.more + start + i, columns - i);
      const V n = load_some<float, V>(normalised + i, columns - i), weighted = g * load_some<float, V>(call.gamma + i, columns - i);
      add_to(call.of_gamma + i, g * n, columns - i);
      add_to(call.of_beta + i, g, columns - i);
      store_some<float, V>(result + i, weighted, columns - i);
      mean = mean + weighted;
      product = V::fma(weighted, n, product);
    }
    const V m = V::set(V::sum(mean) * inverse), p = V::set(V::sum(product) * inverse), factor = V::set(call.factors[r]);
    for (std::int64_t i = 0; i < columns; i += V::kWidth) {
      const V n = load_some<float, V>(normalised + i, columns - i);
      const V out = (load_some<float, V>(result + i, columns - i) - m - n * p) * factor;
      add_to(call.of_sums + i, out, columns - i);
      store_some<float, V>(result + i, out, columns - i);
      store_some<T, V>(call.rounded + start + i, out, columns - i);
    }
  }
}

// d/dx of x Phi(x) = Phi(x) + x phi(x); both halves share one exponential (erf as in gelu_exact).
template <typename V>
inline V gelu_slope(V x) {
  const V z = V::abs(x) * V::set(0.70710678F);
  const V t = V::set(1.0F) / V::fma(z, V::set(0.3275911F), V::set(1.0F));
  V p = V::set(1.061405429F);
  p = V::fma(p, t, V::set(-1.453152027F));
  p = V::fma(p, t, V::set(1.421413741F));
  p = V::fma(p, t, V::set(-0.284496736F));
  p = V::fma(p, t, V::set(0.254829592F));
  const V bell = exp_exact(V::set(0.0F) - z * z);
  const V half_tail = p * t * bell * V::set(0.5F);  // 1 - Phi(|x|)
  // step = 1 for x > 0, 0 for x < 0; Phi(x) = step (1 - 2 half_tail) + half_tail
  const V step = V::min(V::max(x * V::set(3e38F), V::set(0.0F)), V::set(1.0F));
  return V::fma(step, V::set(1.0F) - half_tail - half_tail, half_tail) + x * bell * V::set(0.39894228F);
}

template <typename V>
inline V gelu_tanh_slope(V x) {
  const V square = x * x;
  const V y = x * V::fma(square, V::set(0.044715F * 1.5957691F), V::set(1.5957691F));  // 2 sqrt(2/pi) (x + .044715 x^3)
  const V s = V::set(1.0F) / (V::set(1.0F) + exp_exact(V::max(V::min(V::set(0.0F) - y, V::set(80.0F)), V::set(-80.0F))));
  return s + x * s * (V::set(1.0F) - s) * V::fma(square, V::set(3.0F * 0.044715F * 1.5957691F), V::set(1.5957691F));
}

template <typename V>
inline V slope(V x, Activation activation) {
  switch (activation) {
    case Activation::none: return V::set(1.0F);
    case Activation::gelu: return gelu_slope(x);
    case Activation::gelu_tanh: return gelu_tanh_slope(x);
    case Activation::relu: return V::min(V::max(x * V::set(3e38F), V::set(0.0F)), V::set(1.0F));
  }
  return V::set(1.0F);
}

template <typename T, typename V>
void activation_simd(const ActivationCall<T>& call) {
  const std::int64_t count = call.rows * call.columns;
  for (std::int64_t i = 0; i < count; i += V::kWidth)
    store_some<T, V>(call.output + i, activate(load_some<T, V>(call.input + i, count - i), call.activation), count - i);
}

template <typename T, typename V>
void activation_gradient_simd(const ActivationGradientCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth) {
      const std::int64_t at = r * call.columns + i, left = call.columns - i;
      const V result = load_some<T, V>(call.gradient + at, left) * slope(load_some<T, V>(call.input + at, left), call.activation);
      add_to(call.of_sums + i, result, left);
      store_some<T, V>(call.result + at, result, left);
    }
}

template <typename T, typename V>
void column_sums_simd(const ColumnSumsCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth)
      add_to(call.sums + i, load_some<T, V>(call.values + r * call.columns + i, call.columns - i), call.columns - i);
}

// One head in fp32, rows padded to `keys`, columns to `width`, with zeros.
struct GradientScratch {
  float *q, *k, *v, *g, *k_columns, *v_columns, *dk, *dv, *scores, *slopes;
};

inline GradientScratch divide(std::byte* memory, std::int64_t keys, std::int64_t width, std::int64_t rows) {
  GradientScratch s{};
  float* next = reinterpret_cast<float*>(memory);
  for (float** part : {&s.q, &s.k, &s.v, &s.g, &s.k_columns, &s.v_columns, &s.dk, &s.dv}) {
    *part = next;
    next += keys * width;
  }
  s.scores = next;
  s.slopes = next + rows * keys;
  return s;
}

// Rows of one head to (keys, width), and to (width, keys) when asked.
template <typename T, typename V>
inline void take_head(const T* from, std::int64_t stride, std::int64_t tokens, std::int64_t head_size, std::int64_t keys,
                      std::int64_t width, float* rows, float* columns) {
  const auto bytes = static_cast<std::size_t>(keys * width) * sizeof(float);
  __builtin_memset(rows, 0, bytes);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < head_size; i += V::kWidth)
      store_some<float, V>(rows + t * width + i, load_some<T, V>(from + t * stride + i, head_size - i), head_size - i);
  if (columns == nullptr) return;
  __builtin_memset(columns, 0, bytes);
  for (std::int64_t i = 0; i < head_size; ++i)
    for (std::int64_t t = 0; t < tokens; ++t) columns[i * keys + t] = rows[t * width + i];
}

template <typename T, typename V>
void gather_gradient_head(const AttentionGradientCall<T>& call, std::int64_t head, std::int64_t keys, std::int64_t width,
                          const GradientScratch& s) {
  const std::int64_t size = call.head_size, tokens = call.tokens;
  const T* qkv = call.qkv + head * size;
  take_head<T, V>(qkv, call.qkv_stride, tokens, size, keys, width, s.q, nullptr);
  take_head<T, V>(qkv + call.key_column, call.qkv_stride, tokens, size, keys, width, s.k, s.k_columns);
  take_head<T, V>(qkv + call.value_column, call.qkv_stride, tokens, size, keys, width, s.v, s.v_columns);
  take_head<T, V>(call.gradient + head * size, call.gradient_stride, tokens, size, keys, width, s.g, nullptr);
  __builtin_memset(s.dk, 0, static_cast<std::size_t>(keys * width) * sizeof(float));
  __builtin_memset(s.dv, 0, static_cast<std::size_t>(keys * width) * sizeof(float));
}

// out (R, keys) = rows (R, width) x columns (width, keys).
template <typename V, int R>
inline void all_keys(const float* rows, const float* columns, std::int64_t keys, std::int64_t width, std::int64_t head_size, float* out) {
  for (std::int64_t t = 0; t < keys; t += 2 * V::kWidth) {
    V acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0.0F);
    for (std::int64_t i = 0; i < head_size; ++i) {
      const V c0 = V::load(columns + i * keys + t), c1 = V::load(columns + i * keys + t + V::kWidth);
      for (int r = 0; r < R; ++r) {
        const V x = V::set(rows[r * width + i]);
        acc[r][0] = V::fma(x, c0, acc[r][0]);
        acc[r][1] = V::fma(x, c1, acc[r][1]);
      }
    }
    for (int r = 0; r < R; ++r) {
      V::store(out + r * keys + t, acc[r][0]);
      V::store(out + r * keys + t + V::kWidth, acc[r][1]);
    }
  }
}

// to (tokens, width) += shares (R, keys)^T x rows (R, width).
template <typename V, int R>
inline void spread(const float* shares, const float* rows, std::int64_t tokens, std::int64_t keys, std::int64_t width, float* to) {
  for (std::int64_t column = 0; column < width; column += 2 * V::kWidth) {
    V part[R][2];
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < 2; ++j) part[r][j] = V::load(rows + r * width + column + j * V::kWidth);
    for (std::int64_t t = 0; t < tokens; ++t) {
      float* row = to + t * width + column;
      V a = V::load(row), b = V::load(row + V::kWidth);
      for (int r = 0; r < R; ++r) {
        const V x = V::set(shares[r * keys + t]);
        a = V::fma(x, part[r][0], a);
        b = V::fma(x, part[r][1], b);
      }
      V::store(row, a);
      V::store(row + V::kWidth, b);
    }
  }
}

// scores -> P, slopes -> dS (scale included).
template <typename V, int R>
inline void differentiate_softmax(float* scores, float* slopes, std::int64_t tokens, std::int64_t keys, float scale) {
  float sums[R];
  softmax_rows<V, R>(scores, keys, tokens, scale, sums);
  for (int r = 0; r < R; ++r) {
    const V inverse = V::set(1.0F / sums[r]);
    V sum = V::set(0.0F);
    for (std::int64_t t = 0; t < keys; t += V::kWidth) {
      const V p = V::load(scores + r * keys + t) * inverse;
      V::store(scores + r * keys + t, p);
      sum = V::fma(p, V::load(slopes + r * keys + t), sum);
    }
    const V mean = V::set(V::sum(sum)), factor = V::set(scale);
    for (std::int64_t t = 0; t < keys; t += V::kWidth)
      V::store(slopes + r * keys + t, V::load(scores + r * keys + t) * (V::load(slopes + r * keys + t) - mean) * factor);
  }
}

template <typename T, typename V>
inline void store_head(const float* rows, std::int64_t count, std::int64_t width, std::int64_t head_size, T* to, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t i = 0; i < head_size; i += V::kWidth)
      store_some<T, V>(to + t * stride + i, V::load(rows + t * width + i), head_size - i);
}

template <typename T, typename V, int R>
void differentiate_queries(const AttentionGradientCall<T>& call, std::int64_t head, std::int64_t q, std::int64_t keys, std::int64_t width,
                           const GradientScratch& s) {
  all_keys<V, R>(s.q + q * width, s.k_columns, keys, width, call.head_size, s.scores);
  all_keys<V, R>(s.g + q * width, s.v_columns, keys, width, call.head_size, s.slopes);
  differentiate_softmax<V, R>(s.scores, s.slopes, call.tokens, keys, call.scale);
  spread<V, R>(s.scores, s.g + q * width, call.tokens, keys, width, s.dv);
  spread<V, R>(s.slopes, s.q + q * width, call.tokens, keys, width, s.dk);
  for (std::int64_t column = 0; column < width; column += 2 * V::kWidth) {  // dQ = dS K
    V acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::set(0.0F);
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      const V k0 = V::load(s.k + t * width + column), k1 = V::load(s.k + t * width + column + V::kWidth);
      for (int r = 0; r < R; ++r) {
        const V x = V::set(s.slopes[r * keys + t]);
        acc[r][0] = V::fma(x, k0, acc[r][0]);
        acc[r][1] = V::fma(x, k1, acc[r][1]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < 2; ++j) {
        const std::int64_t i = column + j * V::kWidth;
        if (i < call.head_size)
          store_some<T, V>(call.result + (q + r) * call.result_stride + head * call.head_size + i, acc[r][j], call.head_size - i);
      }
  }
}

template <typename T, typename V, int R>
void differentiate_rest(const AttentionGradientCall<T>& call, std::int64_t head, std::int64_t q, std::int64_t keys, std::int64_t width,
                        const GradientScratch& s) {
  if constexpr (R > 0) {
    if (call.tokens - q == R) differentiate_queries<T, V, R>(call, head, q, keys, width, s);
    else differentiate_rest<T, V, R - 1>(call, head, q, keys, width, s);
  }
}

template <typename T, typename V>
void attention_gradient_simd(const AttentionGradientCall<T>& call) {
  constexpr int kQueries = V::kRows < 6 ? V::kRows : 6;
  const std::int64_t keys = round_up(call.tokens, 32), width = round_up(call.head_size, 32);
  const GradientScratch s = divide(call.scratch, keys, width, kQueries);
  for (std::int64_t head = 0; head < call.heads; ++head) {
    gather_gradient_head<T, V>(call, head, keys, width, s);
    std::int64_t q = 0;
    for (; q + kQueries <= call.tokens; q += kQueries) differentiate_queries<T, V, kQueries>(call, head, q, keys, width, s);
    differentiate_rest<T, V, kQueries - 1>(call, head, q, keys, width, s);
    T* result = call.result + head * call.head_size;
    store_head<T, V>(s.dk, call.tokens, width, call.head_size, result + call.key_column, call.result_stride);
    store_head<T, V>(s.dv, call.tokens, width, call.head_size, result + call.value_column, call.result_stride);
  }
}

template <typename T, typename V>
void set_simd(TrainingKernels<T>& kernels) {
  kernels.attention_gradient = attention_gradient_simd<T, V>;
  kernels.add_norm = add_norm_simd<T, V>;
  kernels.add_norm_gradient = add_norm_gradient_simd<T, V>;
  kernels.activation = activation_simd<T, V>;
  kernels.activation_gradient = activation_gradient_simd<T, V>;
  kernels.column_sums = column_sums_simd<T, V>;
}
