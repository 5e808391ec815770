// The reference twins of the training kernels: plain loops.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "levels.hpp"
#include "plain.hpp"

namespace gpuhpc::kernels {
namespace {

#include "dropout.inl"

// What element (row, column) is multiplied by.
double factor_of(const Dropout& dropout, std::int64_t row, std::int64_t column,
                 std::int64_t columns) {
  const std::uint64_t counter =
      dropout.first + dropout_counters(row, columns) + static_cast<std::uint64_t>(column / 4);
  const std::uint64_t bits = squares(counter, dropout.key) >> column % 4 * 16 & 0xffff;
  return bits < dropout.threshold ? 0 : static_cast<double>(dropout.scale);
}

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
// head_size), and their gradients.
struct Head {
  std::vector<double> q, k, v, g, dq = {}, dk = {}, dv = {};
};

template <typename T>
std::vector<double> gather(const T* from, std::int64_t stride, std::int64_t tokens,
                           std::int64_t size) {
  std::vector<double> rows;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < size; ++i) rows.push_back(to_float(from[t * stride + i]));
  return rows;
}

// softmax(scale (q K^T + start)) of query q.
std::vector<double> shares(const std::vector<double>& queries, const std::vector<double>& keys,
                           std::int64_t q, std::int64_t tokens, std::int64_t size, double scale,
                           const float* start) {
  std::vector<double> p(static_cast<std::size_t>(tokens));
  double highest = -1e300, total = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double score = start == nullptr ? 0 : start[t];
    for (std::int64_t i = 0; i < size; ++i)
      score += queries[static_cast<std::size_t>(q * size + i)] *
               keys[static_cast<std::size_t>(t * size + i)];
    p[static_cast<std::size_t>(t)] = score * scale;
    highest = std::max(highest, score * scale);
  }
  for (double& x : p) total += x = std::exp(x - highest);
  for (double& x : p) x /= total;
  return p;
}

template <typename T>
void dropped_attention(const DroppedAttentionCall<T>& call) {
  const AttentionCall<T>& a = call.attention;
  for (std::int64_t head = 0; head < a.heads; ++head) {
    const T* qkv = a.qkv + head * a.head_size;
    const auto queries = gather(qkv, a.qkv_stride, a.tokens, a.head_size),
               keys = gather(qkv + a.key_column, a.qkv_stride, a.tokens, a.head_size),
               values = gather(qkv + a.value_column, a.qkv_stride, a.tokens, a.head_size);
    for (std::int64_t q = 0; q < a.tokens; ++q) {
      const float* start =
          a.start == nullptr ? nullptr : a.start + head * a.start_head + q * a.start_stride;
      const auto p = shares(queries, keys, q, a.tokens, a.head_size, a.scale, start);
      for (std::int64_t i = 0; i < a.head_size; ++i) {
        double sum = 0;
        for (std::int64_t t = 0; t < a.tokens; ++t)
          sum += p[static_cast<std::size_t>(t)] *
                 factor_of(call.dropout, head * a.tokens + q, t, a.tokens) *
                 values[static_cast<std::size_t>(t * a.head_size + i)];
        a.output[q * a.output_stride + head * a.head_size + i] =
            from_float<T>(static_cast<float>(sum));
      }
    }
  }
}

// `start`, `of_start`: this head's, or null. `first_row`: of the dropout's.
void differentiate(Head& all, std::int64_t tokens, std::int64_t size, double scale,
                   const float* start, float* of_start, std::int64_t start_stride,
                   const Dropout& dropout, std::int64_t first_row) {
  const auto at = [&](std::int64_t t) { return static_cast<std::size_t>(t * size); };
  std::vector<double> dp(static_cast<std::size_t>(tokens));
  for (std::int64_t q = 0; q < tokens; ++q) {
    const auto p = shares(all.q, all.k, q, tokens, size, scale,
                          start == nullptr ? nullptr : start + q * start_stride);
    double mean = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      double slope_of = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
        slope_of += all.g[at(q) + i] * all.v[at(t) + i];
      dp[static_cast<std::size_t>(t)] = slope_of * factor_of(dropout, first_row + q, t, tokens);
      mean += p[static_cast<std::size_t>(t)] * dp[static_cast<std::size_t>(t)];
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double share = p[static_cast<std::size_t>(t)],
                   ds = share * (dp[static_cast<std::size_t>(t)] - mean) * scale,
                   used = share * factor_of(dropout, first_row + q, t, tokens);
      if (start != nullptr) of_start[q * start_stride + t] += static_cast<float>(ds);
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
        all.dq[at(q) + i] += ds * all.k[at(t) + i];
        all.dk[at(t) + i] += ds * all.q[at(q) + i];
        all.dv[at(t) + i] += used * all.g[at(q) + i];
      }
    }
  }
}

template <typename T>
void attention_gradient(const AttentionGradientCall<T>& call) {
  for (std::int64_t head = 0; head < call.heads; ++head) {
    const T* qkv = call.qkv + head * call.head_size;
    Head all{gather(qkv, call.qkv_stride, call.tokens, call.head_size),
             gather(qkv + call.key_column, call.qkv_stride, call.tokens, call.head_size),
             gather(qkv + call.value_column, call.qkv_stride, call.tokens, call.head_size),
             gather(call.gradient + head * call.head_size, call.gradient_stride, call.tokens,
                    call.head_size)};
    all.dq = all.dk = all.dv = std::vector<double>(all.q.size());
    const bool started = call.start != nullptr;
    differentiate(all, call.tokens, call.head_size, call.scale,
                  started ? call.start + head * call.start_head : nullptr,
                  started ? call.of_start + head * call.start_head : nullptr, call.start_stride,
                  call.dropout, head * call.tokens);
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

template <typename T>
void add_norm(const AddNormCall<T>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const std::int64_t start = r * call.columns;
    const auto total = [&](std::int64_t i) {
      return call.residual[start + i] +
             to_float(call.change[start + i]) * factor_of(call.dropout, r, i, call.columns);
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
    double mean = 0, product = 0;
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const double weighted = call.gradient[start + i] * call.gamma[i];
      mean += weighted / static_cast<double>(call.columns);
      product += weighted * call.normalised[start + i] / static_cast<double>(call.columns);
    }
    for (std::int64_t i = 0; i < call.columns; ++i) {
      const float g = call.gradient[start + i], n = call.normalised[start + i];
      const auto result =
          static_cast<float>(call.factors[r] * (g * call.gamma[i] - mean - n * product));
      call.of_gamma[i] += g * n;
      call.of_beta[i] += g;
      const auto of_change =
          static_cast<float>(result * factor_of(call.dropout, r, i, call.columns));
      call.of_sums[i] += of_change;
      call.result[start + i] = result;
      call.rounded[start + i] = from_float<T>(of_change);
    }
  }
}

template <typename T>
void activation(const ActivationCall<T>& call) {
  for (std::int64_t i = 0; i < call.rows * call.columns; ++i)
    call.output[i] = from_float<T>(activate(to_float(call.input[i]), call.activation));
}

template <typename T>
void activation_gradient(const ActivationGradientCall<T>& call) {
  for (std::int64_t i = 0; i < call.rows * call.columns; ++i) {
    const float result =
        to_float(call.gradient[i]) * slope(to_float(call.input[i]), call.activation);
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
  kernels.dropped_attention = dropped_attention<T>;
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
