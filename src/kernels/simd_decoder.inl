#pragma once
// The decoder's kernels for any vector width: included inside the anonymous namespace of an
// instruction-set file, after its target pragma and a vector. V wraps one register.
#include "simd_f32.inl"
#include "simd_math.inl"

template <typename T, typename V>
void rms_norm_simd(const RmsNormCall<T>& call) {
  const std::int64_t width = round_up(call.columns, 32);
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const float* values = call.values + r * call.stride;
    T* output = call.output + r * call.output_stride;
    V squares[4] = {V::set(0.0F), V::set(0.0F), V::set(0.0F), V::set(0.0F)};
    for (std::int64_t i = 0; i < width; i += 2 * V::kWidth)
      for (int j = 0; j < 2; ++j) {
        const V x = V::load(values + i + j * V::kWidth);
        V& sum = squares[i / V::kWidth % 4 + j];
        sum = V::fma(x, x, sum);
      }
    const float square = V::sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
    const V factor =
        V::set(1.0F / __builtin_sqrtf(square / static_cast<float>(call.columns) + call.epsilon));
    for (std::int64_t i = 0; i < width; i += V::kWidth)
      Io<T, V>::store(output + i, V::load(values + i) * factor * V::load(call.gamma + i));
  }
}

// Keys and values are long in memory, in pieces too short for the processor to foresee: each one's
// reading asks for what is read behind it.
template <typename T>
inline void fetch(const T* row, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += 64 / static_cast<std::int64_t>(sizeof(T)))
    __builtin_prefetch(row + i, 0, 3);
}

// scores[t] of all keys, padded to whole registers with what counts nothing; returns their
// highest. kWidth keys at a time: each one's products stay in a register of their own until all are
// turned around, so that no key's are summed up alone.
template <typename T, typename V>
inline float cached_scores(const CachedAttentionCall<T>& call, const T* query, const T* const* rows,
                           std::int64_t step, const float* bias) {
  V highest = V::set(-1e30F);
  for (std::int64_t t = 0; t < call.keys; t += V::kWidth) {
    const T* keys[V::kWidth];
    for (int r = 0; r < V::kWidth; ++r) {
      keys[r] = rows[t + r < call.keys ? t + r : call.keys - 1] + step;
      fetch(keys[r] + call.value_step, call.head_size);
    }
    V parts[V::kWidth];
#pragma GCC unroll 16
    for (int r = 0; r < V::kWidth; ++r) parts[r] = V::set(0.0F);
    for (std::int64_t i = 0; i < call.head_size; i += 2 * V::kWidth) {
      const V q0 = Io<T, V>::load(query + i), q1 = Io<T, V>::load(query + i + V::kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < V::kWidth; ++r)
        parts[r] = V::fma(q1, Io<T, V>::load(keys[r] + i + V::kWidth),
                          V::fma(q0, Io<T, V>::load(keys[r] + i), parts[r]));
    }
    transpose(parts);
#pragma GCC unroll 4
    for (int width = V::kWidth / 2; width > 0; width /= 2)
#pragma GCC unroll 8
      for (int r = 0; r < width; ++r) parts[r] = parts[r] + parts[r + width];
    V score = parts[0];
    if (bias != nullptr) score = score + V::load(bias + t);
    score = V::first(score, V::set(-1e30F), call.keys - t);
    V::store(call.scratch + t, score);
    highest = V::max(highest, score);
  }
  return V::highest(highest);
}

// output = sum over keys of weight x value, times factor; J registers at a time.
template <typename T, typename V, int J>
inline void weigh(const CachedAttentionCall<T>& call, const T* const* rows, std::int64_t step,
                  std::int64_t next, float factor, T* output) {
  V even[J], odd[J];
#pragma GCC unroll 4
  for (int j = 0; j < J; ++j) even[j] = odd[j] = V::set(0.0F);
  std::int64_t t = 0;
  for (; t + 2 <= call.keys; t += 2) {
    const T *value = rows[t] + step, *behind = rows[t + 1] + step;
    fetch(value + next, J * V::kWidth);
    fetch(behind + next, J * V::kWidth);
    const V weight = V::set(call.scratch[t]), other = V::set(call.scratch[t + 1]);
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j) {
      even[j] = V::fma(weight, Io<T, V>::load(value + j * V::kWidth), even[j]);
      odd[j] = V::fma(other, Io<T, V>::load(behind + j * V::kWidth), odd[j]);
    }
  }
  if (t < call.keys) {
    const V weight = V::set(call.scratch[t]);
#pragma GCC unroll 4
    for (int j = 0; j < J; ++j)
      even[j] = V::fma(weight, Io<T, V>::load(rows[t] + step + j * V::kWidth), even[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < J; ++j)
    Io<T, V>::store(output + j * V::kWidth, (even[j] + odd[j]) * V::set(factor));
}

template <typename T, typename V>
void cached_attention_simd(const CachedAttentionCall<T>& call) {
  for (std::int64_t head = 0; head < call.heads; ++head)
    for (std::int64_t q = 0; q < call.queries; ++q) {
      const T* const* rows = call.rows + q * call.rows_stride;
      const std::int64_t step = call.offset + head * call.head_step, column = head * call.head_size;
      const float* bias = call.bias == nullptr ? nullptr : call.bias + head * call.bias_step;
      const V top = V::set(
          cached_scores<T, V>(call, call.query + q * call.query_stride + column, rows, step, bias));
      V sum = V::set(0.0F);
      for (std::int64_t t = 0; t < call.keys; t += V::kWidth) {
        const V weight =
            V::first(exp_exact(V::max(V::load(call.scratch + t) - top, V::set(-50.0F))),
                     V::set(0.0F), call.keys - t);
        V::store(call.scratch + t, weight);
        sum = sum + weight;
      }
      const float factor = 1.0F / V::sum(sum);
      T* output = call.output + q * call.output_stride + column;
      // from a value to the next head's key
      const std::int64_t next = call.head_step - call.value_step;
      std::int64_t i = 0;
      for (; i + 4 * V::kWidth <= call.head_size; i += 4 * V::kWidth)
        weigh<T, V, 4>(call, rows, step + call.value_step + i, next, factor, output + i);
      for (; i < call.head_size; i += 2 * V::kWidth)
        weigh<T, V, 2>(call, rows, step + call.value_step + i, next, factor, output + i);
    }
}

template <typename T, typename V>
void gate_simd(const GateCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    T* values = call.values + r * call.stride;
    const T* factors = call.factors + r * call.stride;
    for (std::int64_t i = 0; i < call.columns; i += V::kWidth)
      Io<T, V>::store(values + i, Io<T, V>::load(values + i) * Io<T, V>::load(factors + i));
  }
}

template <typename T, typename V>
void rotary_simd(const RotaryCall<T>& call) {
  const std::int64_t half = call.head_size / 2;
  for (std::int64_t r = 0; r < call.rows; ++r)
    for (std::int64_t i = 0; i < half; i += V::kWidth) {
      const std::int64_t left = half - i;
      const V c = load_some<float, V>(call.cosines + r * half + i, left),
              s = load_some<float, V>(call.sines + r * half + i, left);
      for (std::int64_t head = 0; head < call.heads; ++head) {
        T* low = call.values + r * call.stride + head * call.head_size + i;
        const V x = load_some<T, V>(low, left), y = load_some<T, V>(low + half, left);
        store_some<T, V>(low, x * c - y * s, left);
        store_some<T, V>(low + half, V::fma(y, c, x * s), left);
      }
    }
}

template <typename V>
float log_sum_exp_simd(const float* scores, std::int64_t count) {
  const std::int64_t whole = count / V::kWidth * V::kWidth;
  V tops = V::set(scores[0]);
  for (std::int64_t i = 0; i < whole; i += V::kWidth) tops = V::max(tops, V::load(scores + i));
  float highest = V::highest(tops);
  for (std::int64_t i = whole; i < count; ++i)
    if (scores[i] > highest) highest = scores[i];
  const V top = V::set(highest);
  const auto weight = [&](V score) { return exp_exact(V::max(score - top, V::set(-50.0F))); };
  V even = V::set(0.0F), odd = V::set(0.0F);
  std::int64_t i = 0;
  for (; i + 2 * V::kWidth <= count; i += 2 * V::kWidth) {
    even = even + weight(V::load(scores + i));
    odd = odd + weight(V::load(scores + i + V::kWidth));
  }
  for (; i < count; i += V::kWidth)
    odd =
        odd + V::first(weight(load_some<float, V>(scores + i, count - i)), V::set(0.0F), count - i);
  return highest + __builtin_logf(V::sum(even + odd));
}

template <typename V>
std::int64_t next_above_simd(const float* scores, std::int64_t from, std::int64_t count,
                             float bound) {
  const V limit = V::set(bound);
  std::int64_t i = from;
  while (i + 2 * V::kWidth <= count &&
         !V::any_above(V::max(V::load(scores + i), V::load(scores + i + V::kWidth)), limit))
    i += 2 * V::kWidth;
  while (i < count && !(scores[i] > bound)) ++i;
  return i;
}

template <typename T, typename V>
void set_decoder(DecoderKernels<T>& kernels) {
  kernels.rms_norm = rms_norm_simd<T, V>;
  kernels.attention = cached_attention_simd<T, V>;
  kernels.gate = gate_simd<T, V>;
  kernels.rotary = rotary_simd<T, V>;
}
template <typename V>
void set_words(WordKernels& kernels) {
  kernels.log_sum_exp = log_sum_exp_simd<V>;
  kernels.next_above = next_above_simd<V>;
}
