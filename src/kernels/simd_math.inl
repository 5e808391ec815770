#pragma once
// Vector mathematics shared by the instruction-set files: included inside their anonymous
// namespace, after their target pragma and a vector. V wraps one register of V::kWidth floats.

// e^x for x <= about 88; relative error 2e-7.
template <typename V>
inline V exp_exact(V x) {
  const V scaled = V::max(x * V::set(1.44269504F), V::set(-126.0F));
  const V floor = V::floor(scaled), f = scaled - floor;
  V p = V::set(1.8775766588672697e-3F);
  p = V::fma(p, f, V::set(8.989340735576805e-3F));
  p = V::fma(p, f, V::set(5.582631686182195e-2F));
  p = V::fma(p, f, V::set(0.24015361777342753F));
  p = V::fma(p, f, V::set(0.6931530730404358F));
  p = V::fma(p, f, V::set(0.9999999250724718F));
  return V::scale_by_power(p, floor);
}

// x Phi(x), erf by Abramowitz and Stegun 7.1.26: absolute error of erf 1.5e-7.
template <typename V>
inline V gelu_exact(V x) {
  const V z = V::abs(x) * V::set(0.70710678F);
  const V t = V::set(1.0F) / V::fma(z, V::set(0.3275911F), V::set(1.0F));
  V p = V::set(1.061405429F);
  p = V::fma(p, t, V::set(-1.453152027F));
  p = V::fma(p, t, V::set(1.421413741F));
  p = V::fma(p, t, V::set(-0.284496736F));
  p = V::fma(p, t, V::set(0.254829592F));
  const V tail = p * t * exp_exact(V::set(0.0F) - z * z);  // 1 - erf(|x| / sqrt 2)
  const V half = x * V::set(0.5F);
  // 0.5 x (1 + sign(x) (1 - tail)) = max(x, 0) - |x| / 2 * tail
  return V::max(x, V::set(0.0F)) - V::abs(half) * tail;
}

template <typename V>
inline V gelu_tanh(V x) {  // x sigmoid(2 y)
  const V y = x * V::fma(x * x, V::set(0.044715F * 1.5957691F), V::set(1.5957691F));
  return x / (V::set(1.0F) +
              exp_exact(V::max(V::min(V::set(0.0F) - y, V::set(80.0F)), V::set(-80.0F))));
}

template <typename V>
inline V activate(V x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return gelu_exact(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::relu:
      return V::max(x, V::set(0.0F));
  }
  return x;
}

struct RowStatistics {
  float mean, factor;  // factor: 1 / standard deviation
};

template <typename V, typename T>
inline RowStatistics row_statistics(const LayerNormCall<T>& call, const float* values) {
  const std::int64_t whole = call.columns / V::kWidth * V::kWidth;
  const float count = static_cast<float>(call.columns);
  const std::int64_t by_four = whole / (4 * V::kWidth) * 4 * V::kWidth;
  V sums[4] = {V::set(0.0F), V::set(0.0F), V::set(0.0F), V::set(0.0F)};
  for (std::int64_t i = 0; i < by_four; i += 4 * V::kWidth)
    for (int j = 0; j < 4; ++j) sums[j] = sums[j] + V::load(values + i + j * V::kWidth);
  for (std::int64_t i = by_four; i < whole; i += V::kWidth) sums[0] = sums[0] + V::load(values + i);
  float total = V::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (std::int64_t i = whole; i < call.columns; ++i) total += values[i];
  const float mean = total / count;
  const V center = V::set(mean);
  V squares[4] = {V::set(0.0F), V::set(0.0F), V::set(0.0F), V::set(0.0F)};
  for (std::int64_t i = 0; i < by_four; i += 4 * V::kWidth)
    for (int j = 0; j < 4; ++j) {
      const V d = V::load(values + i + j * V::kWidth) - center;
      squares[j] = V::fma(d, d, squares[j]);
    }
  for (std::int64_t i = by_four; i < whole; i += V::kWidth) {
    const V d = V::load(values + i) - center;
    squares[0] = V::fma(d, d, squares[0]);
  }
  float square = V::sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  for (std::int64_t i = whole; i < call.columns; ++i)
    square += (values[i] - mean) * (values[i] - mean);
  return {mean, 1.0F / __builtin_sqrtf(square / count + call.epsilon)};
}

// One row of LayerNormCall. Store::vector and Store::one write results to the rounded copy.
template <typename V, typename Store, typename T>
inline void layer_norm_row(const LayerNormCall<T>& call, std::int64_t row) {
  float* values = call.values + row * call.stride;
  T* output = call.output + row * call.output_stride;
  const std::int64_t whole = call.columns / V::kWidth * V::kWidth;
  const auto [mean, factor] = row_statistics<V>(call, values);
  const V center = V::set(mean), scale = V::set(factor);
  if (call.keep) {
    for (std::int64_t i = 0; i < whole; i += V::kWidth)
      Store::vector(output + i, V::fma((V::load(values + i) - center) * scale,
                                       V::load(call.gamma + i), V::load(call.beta + i)));
  } else if (call.next_bias != nullptr) {
    for (std::int64_t i = 0; i < whole; i += V::kWidth) {
      const V result = V::fma((V::load(values + i) - center) * scale, V::load(call.gamma + i),
                              V::load(call.beta + i));
      Store::vector(output + i, result);
      V::store(values + i, result + V::load(call.next_bias + i));
    }
  } else {
    for (std::int64_t i = 0; i < whole; i += V::kWidth) {
      const V result = V::fma((V::load(values + i) - center) * scale, V::load(call.gamma + i),
                              V::load(call.beta + i));
      Store::vector(output + i, result);
      V::store(values + i, result);
    }
  }
  for (std::int64_t i = whole; i < call.columns; ++i) {
    const float result = (values[i] - mean) * factor * call.gamma[i] + call.beta[i];
    Store::one(output + i, result);
    if (!call.keep) values[i] = call.next_bias != nullptr ? result + call.next_bias[i] : result;
  }
}
