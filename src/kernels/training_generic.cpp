// The reference twins of the training kernels: plain loops.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "levels.hpp"
#include "plain.hpp"

namespace gpuhpc::kernels {
namespace {

float slope(float x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return 1.0F;
    case Activation::gelu:
      return 0.5F * (1.0F + std::erf(x * 0.70710678F)) + x * 0.39894228F * std::exp(-0.5F * x * x);
    case Activation::gelu_tanh: {
      const float t = std::tanh(0.79788456F * (x + 0.044715F * x * x * x));
      return 0.5F * (1.0F + t) +
             0.5F * x * (1.0F - t * t) * 0.79788456F * (1.0F + 3.0F * 0.044715F * x * x);
    }
    case Activation::relu:
      return x > 0 ? 1.0F : 0.0F;
  }
  return 1.0F;
}

// One head as doubles: rows of queries, keys, values and of the output's gradient, each (tokens,
// head_size).
struct Head {
  std::vector<double> q, k, v, g, dq, dk, dv;
};

template <typename T>
Head gather(const AttentionGradientCall<T>& call, std::int64_t head) {
  Head all;
  const auto take = [&](const T* from, std::int64_t stride, std::vector<double>& to) {
    for (std::int64_t t = 0; t < call.tokens; ++t)
      for (std::int64_t i = 0; i < call.head_size; ++i)
        to.push_back(to_float(from[t * stride + head * call.head_size + i]));
  };
  take(call.qkv, call.qkv_stride, all.q);
  take(call.qkv + call.key_column, call.qkv_stride, all.k);
  take(call.qkv + call.value_column, call.qkv_stride, all.v);
  take(call.gradient, call.gradient_stride, all.g);
  all.dq = all.dk = all.dv = std::vector<double>(all.q.size());
  return all;
}

// `start`, `of_start`: this head's, or null.
void differentiate(Head& all, std::int64_t tokens, std::int64_t size, double scale,
                   const float* start, float* of_start, std::int64_t start_stride) {
  const auto at = [&](std::int64_t t) { return static_cast<std::size_t>(t * size); };
  std::vector<double> p(static_cast<std::size_t>(tokens)), dp(p);
  for (std::int64_t q = 0; q < tokens; ++q) {
    double highest = -1e300, total = 0, mean = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      double score = start == nullptr ? 0 : start[q * start_stride + t], slope_of = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
        score += all.q[at(q) + i] * all.k[at(t) + i];
        slope_of += all.g[at(q) + i] * all.v[at(t) + i];
      }
      p[static_cast<std::size_t>(t)] = score * scale;
      dp[static_cast<std::size_t>(t)] = slope_of;
      highest = std::max(highest, score * scale);
    }
    for (double& x : p) total += x = std::exp(x - highest);
    for (std::size_t t = 0; t < p.size(); ++t) mean += (p[t] /= total) * dp[t];
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double share = p[static_cast<std::size_t>(t)],
                   ds = share * (dp[static_cast<std::size_t>(t)] - mean) * scale;
      if (start != nullptr) of_start[q * start_stride + t] += static_cast<float>(ds);
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
        all.dq[at(q) + i] += ds * all.k[at(t) + i];
        all.dk[at(t) + i] += ds * all.q[at(q) + i];
        all.dv[at(t) + i] += share * all.g[at(q) + i];
      }
    }
  }
}

template <typename T>
void attention_gradient(const AttentionGradientCall<T>& call) {
  for (std::int64_t head = 0; head < call.heads; ++head) {
    Head all = gather(call, head);
    const bool started = call.start != nullptr;
    differentiate(all, call.tokens, call.head_size, call.scale,
                  started ? call.start + head * call.start_head : nullptr,
                  started ? call.of_start + head * call.start_head : nullptr, call.start_stride);
    for (std::int64_t t = 0; t < call.tokens; ++t)
      for (std::int64_t i = 0; i < call.head_size; ++i) {
        const auto from = static_cast<std::size_t>(t * call.head_size + i);
        T* to = call.result + t * call.result_stride + head * call.head_size + i;
        to[0] = from_float<T>(static_cast<float>(all.dq[from]));
        to[call.key_column] = from_float<T>(static_cast<float>(all.dk[from]));
        to[call.value_column] = from_float<T>(static_cast<float>(all.dv[from]));
      }
  }
}

float or_zero(const float* bias, std::int64_t column) {
  return bias != nullptr ? bias[column] : 0.0F;
}

template <typename T>
void add_norm(const AddNormCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * call.columns;
    const auto total = [&](std::int64_t i) {
      return call.residual[start + i] + to_float(call.change[start + i]) + or_zero(call.bias, i);
    };
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < call.columns; ++i) sum += total(i);
    const double mean = sum / static_cast<double>(call.columns);
    for (std::int64_t i = 0; i < call.columns; ++i)
      squares += (total(i) - mean) * (total(i) - mean);
    const double factor =
        1.0 / std::sqrt(squares / static_cast<double>(call.columns) + call.epsilon);
    call.factors[r] = static_cast<float>(factor);
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const auto n = static_cast<float>((total(i) - mean) * factor);
      call.normalised[start + i] = n;
      call.output[start + i] = n * call.gamma[i] + call.beta[i];
      call.rounded[start + i] = from_float<T>(call.output[start + i]);
    }
  }
}

template <typename T>
void add_norm_gradient(const AddNormGradientCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * call.columns;
    const auto incoming = [&](std::int64_t i) {
      return call.gradient[start + i] +
             (call.more != nullptr ? to_float(call.more[start + i]) : 0.0F);
    };
    double mean = 0, product = 0;
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const double weighted = incoming(i) * call.gamma[i];
      mean += weighted / static_cast<double>(call.columns);
      product += weighted * call.normalised[start + i] / static_cast<double>(call.columns);
    }
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const float g = incoming(i), n = call.normalised[start + i];
      const auto result =
          static_cast<float>(call.factors[r] * (g * call.gamma[i] - mean - n * product));
      call.of_gamma[i] += g * n;
      call.of_beta[i] += g;
      call.of_sums[i] += result;
      call.result[start + i] = result;
      call.rounded[start + i] = from_float<T>(result);
    }
  }
}

template <typename T>
void activation(const ActivationCall<T>& call) {
  for (std::int64_t i = 0; i < call.rows * call.columns; ++i)
    call.output[i] = from_float<T>(
        activate(to_float(call.input[i]) + or_zero(call.bias, i % call.columns), call.activation));
}

template <typename T>
void activation_gradient(const ActivationGradientCall<T>& call) {
  for (std::int64_t i = 0; i < call.rows * call.columns; ++i) {
    const float result =
        to_float(call.gradient[i]) *
        slope(to_float(call.input[i]) + or_zero(call.bias, i % call.columns), call.activation);
    call.of_sums[i % call.columns] += result;
    call.result[i] = from_float<T>(result);
  }
}

template <typename T>
void column_sums(const ColumnSumsCall<T>& call) {
  for (std::int64_t i = 0; i < call.rows * call.columns; ++i)
    call.sums[i % call.columns] += to_float(call.values[i]);
}

template <typename T>
void set_all(TrainingKernels<T>& kernels) {
  kernels.attention_gradient = attention_gradient<T>;
  kernels.add_norm = add_norm<T>;
  kernels.add_norm_gradient = add_norm_gradient<T>;
  kernels.activation = activation<T>;
  kernels.activation_gradient = activation_gradient<T>;
  kernels.column_sums = column_sums<T>;
}

}  // namespace

void set_generic(TrainingKernels<float>& kernels) { set_all(kernels); }
void set_generic(TrainingKernels<BFloat16>& kernels) { set_all(kernels); }

}  // namespace gpuhpc::kernels
