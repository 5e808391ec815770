#pragma once
// Training kernels for any vector width: included inside the anonymous namespace of an
// instruction-set file, after its target pragma and a vector. V wraps one register.
#include "simd_f32.inl"
#include "simd_math.inl"

template <typename V>
inline void add_to(float* sums, V v, std::int64_t count) {
  store_some<float, V>(sums, load_some<float, V>(sums, count) + v, count);
}

// Drops elements of one row, registers of columns in ascending order.
template <typename V>
class RowDropout {
 public:
  RowDropout() = default;
  RowDropout(const Dropout& dropout, std::int64_t row, std::int64_t columns)
      : dropout_(&dropout), counter_(dropout.first + dropout_counters(row, columns)) {}
  V operator()(V v, std::int64_t column) {
    if (dropout_->threshold == 0) return v;
    if (column % 32 == 0)
      bits_ = V::kept(*dropout_, counter_ + static_cast<std::uint64_t>(column / 4));
    return V::keep(v, bits_ >> (column % 32)) * V::set(dropout_->scale);
  }

 private:
  const Dropout* dropout_ = nullptr;
  std::uint64_t counter_ = 0;
  std::uint32_t bits_ = 0;
};

template <typename T, typename V>
void add_norm_simd(const AddNormCall<T>& call) {
  const std::int64_t columns = call.columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * columns;
    float* normalised = call.normalised + start;
    RowDropout<V> drop(call.dropout, r, columns);
    V sum = V::set(0.0F);
    for (std::int64_t i = 0; i < columns; i += V::kWidth) {
      const V s = load_some<float, V>(call.residual + start + i, columns - i) +
                  drop(load_some<T, V>(call.change + start + i, columns - i), i);
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
    const float factor =
        1.0F / __builtin_sqrtf((V::sum(square) + squares) * inverse + call.epsilon);
    call.factors[r] = factor;
    for (i = 0; i < columns; i += V::kWidth) {
      const V n =
          (load_some<float, V>(normalised + i, columns - i) - V::set(mean)) * V::set(factor);
      const V out = V::fma(n, load_some<float, V>(call.gamma + i, columns - i),
                           load_some<float, V>(call.beta + i, columns - i));
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
      const V g = load_some<float, V>(call.gradient + start + i, columns - i),
              n = load_some<float, V>(normalised + i, columns - i),
              weighted = g * load_some<float, V>(call.gamma + i, columns - i);
      add_to(call.of_gamma + i, g * n, columns - i);
      add_to(call.of_beta + i, g, columns - i);
      store_some<float, V>(result + i, weighted, columns - i);
      mean = mean + weighted;
      product = V::fma(weighted, n, product);
    }
    const V m = V::set(V::sum(mean) * inverse), p = V::set(V::sum(product) * inverse),
            factor = V::set(call.factors[r]);
    RowDropout<V> drop(call.dropout, r, columns);
    for (std::int64_t i = 0; i < columns; i += V::kWidth) {
      const V n = load_some<float, V>(normalised + i, columns - i);
      const V out = (load_some<float, V>(result + i, columns - i) - m - n * p) * factor;
      store_some<float, V>(result + i, out, columns - i);
      const V of_change = drop(out, i);
      add_to(call.of_sums + i, of_change, columns - i);
      store_some<T, V>(call.rounded + start + i, of_change, columns - i);
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
  return V::fma(step, V::set(1.0F) - half_tail - half_tail, half_tail) +
         x * bell * V::set(0.39894228F);
}

template <typename V>
inline V gelu_tanh_slope(V x) {
  const V square = x * x;
  const V y = x * V::fma(square, V::set(0.044715F * 1.5957691F),
                         V::set(1.5957691F));  // 2 sqrt(2/pi) (x + .044715 x^3)
  const V s =
      V::set(1.0F) /
      (V::set(1.0F) + exp_exact(V::max(V::min(V::set(0.0F) - y, V::set(80.0F)), V::set(-80.0F))));
  return s + x * s * (V::set(1.0F) - s) *
                 V::fma(square, V::set(3.0F * 0.044715F * 1.5957691F), V::set(1.5957691F));
}

template <typename V>
inline V slope(V x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return V::set(1.0F);
    case Activation::gelu:
      return gelu_slope(x);
    case Activation::gelu_tanh:
      return gelu_tanh_slope(x);
    case Activation::relu:
      return V::min(V::max(x * V::set(3e38F), V::set(0.0F)), V::set(1.0F));
  }
  return V::set(1.0F);
}

template <typename T, typename V>
void activation_simd(const ActivationCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth) {
      const std::int64_t at = r * call.columns + i, left = call.columns - i;
      store_some<T, V>(call.output + at,
                       activate(load_some<T, V>(call.input + at, left), call.activation), left);
    }
}

template <typename T, typename V>
void activation_gradient_simd(const ActivationGradientCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth) {
      const std::int64_t at = r * call.columns + i, left = call.columns - i;
      const V result = load_some<T, V>(call.gradient + at, left) *
                       slope(load_some<T, V>(call.input + at, left), call.activation);
      add_to(call.of_sums + i, result, left);
      store_some<T, V>(call.result + at, result, left);
    }
}

template <typename T, typename V>
void column_sums_simd(const ColumnSumsCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth)
      add_to(call.sums + i, load_some<T, V>(call.values + r * call.columns + i, call.columns - i),
             call.columns - i);
}

// Queries whose weights are kept at once: what they add to the gradients of keys and values is
// summed in registers.
constexpr std::int64_t kQueryBlock = 128;

// One head in fp32; each of HeadShape's rows or columns, shares and slopes (a block of queries,
// stride).
struct GradientScratch {
  float *q, *k, *g, *dk, *dv, *k_columns, *v_columns, *shares, *slopes;
};

template <typename V>
inline GradientScratch divide(std::byte* memory, const HeadShape<V>& shape) {
  GradientScratch s{};
  float* next = reinterpret_cast<float*>(memory);
  const auto take = [&](std::int64_t count) {
    float* part = next;
    next += count;
    return part;
  };
  for (float** part : {&s.q, &s.k, &s.g, &s.dk, &s.dv}) *part = take(shape.keys * shape.width);
  for (float** part : {&s.k_columns, &s.v_columns}) *part = take(shape.width * shape.stride);
  for (float** part : {&s.shares, &s.slopes})
    *part = take((shape.keys < kQueryBlock ? shape.keys : kQueryBlock) * shape.stride);
  return s;
}

// kHeadRows rows, the first of them `row` of the dropout's: scores -> P (dropped, as dV wants it),
// slopes dP before it is dropped -> dS (scale included).
template <typename V>
inline void differentiate_softmax(float* scores, float* slopes, const HeadShape<V>& shape,
                                  float scale, const Dropout& dropout, std::int64_t row) {
  constexpr int R = kHeadRows<V>;
  V sums[R], dots[R], factors[R], means[R];
  RowDropout<V> drops[R];
  for (int r = 0; r < R; ++r) {
    dots[r] = V::set(0.0F);
    drops[r] = RowDropout<V>(dropout, row + r, shape.tokens);
  }
  exponentials(scores, shape, scale, sums, [&](int r, std::int64_t t, V weights) {
    const V slope = drops[r](V::load(slopes + r * shape.stride + t), t);
    V::store(slopes + r * shape.stride + t, slope);
    dots[r] = V::fma(weights, slope, dots[r]);
  });
  for (int r = 0; r < R; ++r) {
    const float inverse = 1.0F / V::sum(sums[r]);
    factors[r] = V::set(inverse);
    means[r] = V::set(V::sum(dots[r]) * inverse);
  }
  const V scales = V::set(scale);
  for (int r = 0; r < R; ++r)
    for (std::int64_t t = 0; t < shape.keys; t += V::kWidth) {
      const std::int64_t at = r * shape.stride + t;
      const V share = V::load(scores + at) * factors[r];
      V::store(scores + at, drops[r](share, t));
      V::store(slopes + at, share * (V::load(slopes + at) - means[r]) * scales);
    }
}

// kHeadRows queries from q on, row `row` of the block: P, dS and dQ = dS K.
template <typename T, typename V>
inline void differentiate_queries(const AttentionGradientCall<T>& call, const HeadShape<V>& shape,
                                  const GradientScratch& s, std::int64_t head, std::int64_t q,
                                  std::int64_t row, T* result) {
  float *shares = s.shares + row * shape.stride, *slopes = s.slopes + row * shape.stride;
  const auto zero = [](int, std::int64_t) { return V::set(0.0F); };
  const std::int64_t first_start = head * call.start_head + q * call.start_stride;
  const auto start = [&](int r, std::int64_t t) {
    return call.start == nullptr ? V::set(0.0F)
                                 : V::load(call.start + first_start + r * call.start_stride + t);
  };
  product<V>(s.q + q * shape.width, shape.width, 1, s.k_columns, shape.stride, shape.size,
             shape.keys, start,
             [&](int r, std::int64_t t, V v) { V::store(shares + r * shape.stride + t, v); });
  product<V>(s.g + q * shape.width, shape.width, 1, s.v_columns, shape.stride, shape.size,
             shape.keys, zero,
             [&](int r, std::int64_t t, V v) { V::store(slopes + r * shape.stride + t, v); });
  differentiate_softmax(shares, slopes, shape, call.scale, call.dropout, head * shape.tokens + q);
  for (int r = 0; call.start != nullptr && r < kHeadRows<V> && q + r < shape.tokens; ++r)
    for (std::int64_t t = 0; t < shape.tokens; t += V::kWidth)
      add_to(call.of_start + first_start + r * call.start_stride + t,
             V::load(slopes + r * shape.stride + t), shape.tokens - t);
  product<V>(slopes, shape.stride, 1, s.k, shape.width, shape.tokens, shape.width, zero,
             [&](int r, std::int64_t i, V v) {
               if (q + r < shape.tokens)
                 store_some<T, V>(result + (q + r) * call.result_stride + i, v, shape.size - i);
             });
}

// to (keys, width) += weights (queries, stride)^T x rows (queries, width); `fresh`: = instead of
// +=.
template <typename V>
inline void over_queries(const float* weights, const float* rows, std::int64_t queries,
                         const HeadShape<V>& shape, bool fresh, float* to) {
  for (std::int64_t t = 0; t < shape.keys; t += kHeadRows<V>) {
    float* sums = to + t * shape.width;
    product<V>(
        weights + t, 1, shape.stride, rows, shape.width, queries, shape.width,
        [&](int r, std::int64_t i) {
          return fresh ? V::set(0.0F) : V::load(sums + r * shape.width + i);
        },
        [&](int r, std::int64_t i, V v) { V::store(sums + r * shape.width + i, v); });
  }
}

template <typename T, typename V>
inline void store_head(const float* rows, const HeadShape<V>& shape, T* to, std::int64_t stride) {
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t i = 0; i < shape.size; i += V::kWidth)
      store_some<T, V>(to + t * stride + i, V::load(rows + t * shape.width + i), shape.size - i);
}

template <typename T, typename V>
void dropped_attention_simd(const DroppedAttentionCall<T>& call) {
  constexpr int R = kHeadRows<V>;
  const std::int64_t tokens = call.attention.tokens;
  attention_vectors<T, V>(
      call.attention, [&](std::int64_t head, std::int64_t q, float* weights, std::int64_t stride) {
        RowDropout<V> drops[R];
        for (int r = 0; r < R; ++r)
          drops[r] = RowDropout<V>(call.dropout, head * tokens + q + r, tokens);
        return [drops, weights, stride](int r, std::int64_t t, V share) mutable {
          V::store(weights + r * stride + t, drops[r](share, t));
        };
      });
}

template <typename T, typename V>
void attention_gradient_simd(const AttentionGradientCall<T>& call) {
  const HeadShape<V> shape{call.tokens, call.head_size};
  const GradientScratch s = divide(call.scratch, shape);
  for (std::int64_t head = 0; head < call.heads; ++head) {
    const T* qkv = call.qkv + head * call.head_size;
    T* result = call.result + head * call.head_size;
    take_head<T, V>(qkv, call.qkv_stride, shape, s.q, nullptr);
    take_head<T, V>(qkv + call.key_column, call.qkv_stride, shape, s.k, s.k_columns);
    take_head<T, V>(qkv + call.value_column, call.qkv_stride, shape, nullptr, s.v_columns);
    take_head<T, V>(call.gradient + head * call.head_size, call.gradient_stride, shape, s.g,
                    nullptr);
    for (std::int64_t first = 0; first < call.tokens; first += kQueryBlock) {
      const std::int64_t left = call.tokens - first,
                         queries = left < kQueryBlock ? left : kQueryBlock;
      for (std::int64_t row = 0; row < queries; row += kHeadRows<V>)
        differentiate_queries<T, V>(call, shape, s, head, first + row, row, result);
      over_queries(s.shares, s.g + first * shape.width, queries, shape, first == 0, s.dv);
      over_queries(s.slopes, s.q + first * shape.width, queries, shape, first == 0, s.dk);
    }
    store_head<T, V>(s.dk, shape, result + call.key_column, call.result_stride);
    store_head<T, V>(s.dv, shape, result + call.value_column, call.result_stride);
  }
}

template <typename T, typename V>
void set_simd(TrainingKernels<T>& kernels) {
  kernels.dropped_attention = dropped_attention_simd<T, V>;
  kernels.attention_gradient = attention_gradient_simd<T, V>;
  kernels.add_norm = add_norm_simd<T, V>;
  kernels.add_norm_gradient = add_norm_gradient_simd<T, V>;
  kernels.activation = activation_simd<T, V>;
  kernels.activation_gradient = activation_gradient_simd<T, V>;
  kernels.column_sums = column_sums_simd<T, V>;
}

// 32-bit packing: rows of kWidth values, turned over where columns become rows.
template <typename V>
void pack_weight_f32(const PackCall<float, float>& call) {
  for (std::int64_t n = 0; n < call.rows; n += V::kWidth) {
    float* panel = call.packed +
                   ((call.first_panel + n / kPanel) * call.packed_rows + call.first_k) * kPanel +
                   n % kPanel;
    for (std::int64_t k = 0; k < call.columns; k += V::kWidth) {
      V block[V::kWidth];
#pragma GCC unroll 16
      for (int r = 0; r < V::kWidth; ++r)
        block[r] = V::load(call.values + (n + r) * call.columns + k);
      transpose(block);
#pragma GCC unroll 16
      for (int r = 0; r < V::kWidth; ++r) V::store(panel + (k + r) * kPanel, block[r]);
    }
  }
}

template <typename V>
void pack_rows_f32(const PackCall<float, float>& call) {
  for (std::int64_t k = 0; k < round_up(call.rows, 32); ++k) {
    float* to = call.packed + (call.first_panel * call.packed_rows + call.first_k + k) * kPanel;
    for (std::int64_t n = 0; n < call.columns; n += kPanel, to += call.packed_rows * kPanel)
      for (std::int64_t i = 0; i < kPanel; i += V::kWidth)
        V::store(to + i,
                 k < call.rows ? V::load(call.values + k * call.columns + n + i) : V::set(0.0F));
  }
}

template <typename V>
void turn_rows_f32(const float* values, std::int64_t rows, std::int64_t columns, float* result,
                   const Turned& layout) {
  for (std::int64_t r = 0; r < round_up(rows, 32); r += V::kWidth)
    for (std::int64_t c = 0; c < columns; c += V::kWidth) {
      V block[V::kWidth];
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i)
        block[i] = r + i < rows ? V::load(values + (r + i) * columns + c) : V::set(0.0F);
      transpose(block);
      float* to = result + c * layout.input_stride + r;
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i) V::store(to + i * layout.input_stride, block[i]);
    }
}

template <typename V>
void set_packing(PackingKernels<float>& kernels) {
  kernels = {pack_weight_f32<V>, pack_rows_f32<V>, pack_rows_f32<V>, turn_rows_f32<V>};
}
