// Every training kernel of every instruction set here against its plain twin, on shapes with and
// without remainders.
#include <gpuhpc/base/random.hpp>
#include <gpuhpc/kernels/packed_matrix.hpp>
#include <gpuhpc/kernels/training_kernels.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuhpc::kernels {
namespace {

template <typename T>
struct Rows {
  std::int64_t rows, columns;
  AlignedBuffer<T> values;
  Rows(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(r * c) {}
  T* data() { return values.data(); }
};

template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_bf16(value);
}

template <typename T>
Rows<T> noise(std::int64_t rows, std::int64_t columns, std::uint64_t seed, double scale = 1) {
  Rows<T> result(rows, columns);
  RandomStream random(seed, 0);
  for (std::int64_t i = 0; i < rows * columns; ++i)
    result.data()[i] = from_float<T>(static_cast<float>((random.uniform() * 4 - 2) * scale));
  return result;
}

template <typename T>
double difference(Rows<T>& a, Rows<T>& b) {
  double largest = 0, scale = 1;
  for (std::int64_t i = 0; i < a.rows * a.columns; ++i) {
    largest = std::max(
        largest, static_cast<double>(std::abs(to_float(a.data()[i]) - to_float(b.data()[i]))));
    scale = std::max(scale, static_cast<double>(std::abs(to_float(b.data()[i]))));
  }
  return largest / scale;
}

template <typename T>
constexpr double tolerance = std::is_same_v<T, float> ? 5e-6 : 9e-3;  // bf16: two steps of 2^-8

template <typename T>
class TrainingKernelsTest : public ::testing::Test {};
using Types = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(TrainingKernelsTest, Types);

// Gradients of qkv, and of the scores' start where they have one: a number for each distance.
template <typename T>
std::pair<Rows<T>, Rows<float>> attention_gradient(Isa isa, std::int64_t tokens, std::int64_t size,
                                                   bool started, const Dropout& dropout) {
  constexpr std::int64_t heads = 2;
  const std::int64_t width = heads * size, reach = round_up(tokens, 32), columns = 2 * reach - 1;
  Rows<T> qkv = noise<T>(tokens, 3 * width, 1), gradient = noise<T>(tokens, width, 2),
          result(tokens, 3 * width);
  Rows<float> start = noise<float>(heads, columns, 3, 3), of_start(heads, columns);
  AlignedBuffer<std::byte> scratch(attention_gradient_scratch_bytes(tokens, size));
  AttentionGradientCall<T> call{
      qkv.data(),      3 * width, width,         2 * width,
      tokens,          heads,     size,          1 / std::sqrt(static_cast<float>(size)),
      gradient.data(), width,     result.data(), 3 * width,
      scratch.data()};
  if (started)
    call.start = start.data() + reach - 1, call.start_stride = -1, call.start_head = columns,
    call.of_start = of_start.data() + reach - 1;
  call.dropout = dropout;
  const EncoderKernels<T> kernels = encoder_kernels<T>(isa);
  const KernelScope<T> scope(kernels);
  training_kernels<T>(isa).attention_gradient(call);
  return {std::move(result), std::move(of_start)};
}

// A dropout whose counters begin in the middle of some row.
Dropout dropout_of(double rate) {
  Dropout dropout = make_dropout(rate, 17);
  dropout.first = 1000003;
  return dropout;
}

TYPED_TEST(TrainingKernelsTest, AttentionGradient) {
  for (const Isa isa : supported_isas()) {
    for (const auto& [tokens, size] :
         {std::pair{1, 32}, {5, 32}, {16, 8}, {31, 32}, {33, 64}, {96, 32}, {130, 64}, {40, 24}})
      for (const bool started : {false, true})
        for (const double rate : {0.0, 0.3}) {
          auto [ours, of_start] =
              attention_gradient<TypeParam>(isa, tokens, size, started, dropout_of(rate));
          auto [twin, of_start_twin] =
              attention_gradient<TypeParam>(Isa::generic, tokens, size, started, dropout_of(rate));
          EXPECT_LE(difference(ours, twin), 2 * tolerance<TypeParam>)
              << to_string(isa) << " " << tokens << " x " << size << " " << started << " " << rate;
          EXPECT_LE(difference(of_start, of_start_twin), 1e-5) << to_string(isa) << " " << tokens;
        }
  }
}

// Attention of two heads; `start` as in attention_gradient.
template <typename T>
Rows<T> dropped_attention(Isa isa, std::int64_t tokens, std::int64_t size, bool started,
                          const Dropout& dropout, bool plain = false) {
  constexpr std::int64_t heads = 2;
  const std::int64_t width = heads * size, reach = round_up(tokens, 32), columns = 2 * reach - 1;
  Rows<T> qkv = noise<T>(round_up(tokens, 32), 3 * width, 1), result(tokens, width);
  Rows<float> start = noise<float>(heads, columns, 3, 3);
  AlignedBuffer<std::byte> scratch(attention_gradient_scratch_bytes(tokens, size));
  AttentionCall<T> call{
      qkv.data(),    3 * width, width,         2 * width,
      tokens,        heads,     size,          1 / std::sqrt(static_cast<float>(size)),
      result.data(), width,     scratch.data()};
  if (started)
    call.start = start.data() + reach - 1, call.start_stride = -1, call.start_head = columns;
  const EncoderKernels<T> kernels = encoder_kernels<T>(isa);
  const KernelScope<T> scope(kernels);
  if (plain)
    kernels.attention(call);
  else
    training_kernels<T>(isa).dropped_attention({call, dropout});
  return result;
}

TYPED_TEST(TrainingKernelsTest, DroppedAttention) {
  for (const Isa isa : supported_isas())
    for (const auto& [tokens, size] :
         {std::pair{1, 32}, {5, 32}, {31, 32}, {33, 64}, {96, 32}, {130, 64}})
      for (const bool started : {false, true}) {
        Rows<TypeParam> ours = dropped_attention<TypeParam>(isa, tokens, size, started,
                                                            dropout_of(.3)),
                        twin = dropped_attention<TypeParam>(Isa::generic, tokens, size, started,
                                                            dropout_of(.3)),
                        none = dropped_attention<TypeParam>(isa, tokens, size, started, {}),
                        plain = dropped_attention<TypeParam>(isa, tokens, size, started, {}, true);
        EXPECT_LE(difference(ours, twin), tolerance<TypeParam>)
            << to_string(isa) << " " << tokens << " x " << size << " " << started;
        EXPECT_LE(difference(none, plain), 2 * tolerance<TypeParam>)
            << to_string(isa) << " " << tokens << " x " << size << " " << started;
      }
}

// One row of ones, mean and deviation taken out again: what add_norm dropped, kept and scaled.
std::vector<float> drawn(const Dropout& dropout, std::int64_t rows, std::int64_t columns, Isa isa) {
  Rows<float> residual(rows, columns), gamma(1, columns), output(rows, columns),
      rounded(rows, columns), normalised(rows, columns), factors(1, rows);
  Rows<float> ones(rows, columns), beta(1, columns);
  std::fill_n(ones.data(), rows * columns, 1.0F);
  training_kernels<float>(isa).add_norm({residual.data(), ones.data(), rows, columns, gamma.data(),
                                         beta.data(), 0, output.data(), rounded.data(),
                                         normalised.data(), factors.data(), dropout});
  std::vector<float> result;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float lowest =
        *std::min_element(normalised.data() + r * columns, normalised.data() + (r + 1) * columns);
    for (std::int64_t c = 0; c < columns; ++c)
      result.push_back((normalised.data()[r * columns + c] - lowest) / factors.data()[r]);
  }
  return result;
}

// Shares, scale and independence: of neighbours in a row, of rows, of keys.
TEST(Dropout, DropsTheShareThatIsAskedForIndependently) {
  constexpr std::int64_t rows = 400, columns = 160;
  for (const double rate : {.1, .3, .75})
    for (const Isa isa : supported_isas()) {
      const auto values = drawn(make_dropout(rate, 1), rows, columns, isa),
                 others = drawn(make_dropout(rate, 2), rows, columns, isa);
      double dropped = 0, next = 0, below = 0, other = 0;
      const auto is_dropped = [](float v) { return v < .5F; };
      for (std::size_t i = 0; i + columns < values.size(); ++i) {
        EXPECT_NEAR(values[i], is_dropped(values[i]) ? 0 : 1 / (1 - rate), 1e-3);
        if (!is_dropped(values[i])) continue;
        ++dropped;
        next += is_dropped(values[i + 1]);
        below += is_dropped(values[i + columns]);
        other += is_dropped(others[i]);
      }
      const double count = (rows - 1) * columns, slack = 4 / std::sqrt(rate * count);
      EXPECT_NEAR(dropped / count, rate, 4 * std::sqrt(rate / count)) << to_string(isa);
      for (const double pairs : {next, below, other})
        EXPECT_NEAR(pairs / dropped, rate, slack) << to_string(isa) << " " << rate;
    }
}

TYPED_TEST(TrainingKernelsTest, AddNormAndItsGradient) {
  using T = TypeParam;
  for (const std::int64_t columns : {384, 32, 40, 7}) {
    constexpr std::int64_t rows = 9;
    Rows<float> residual = noise<float>(rows, columns, 1), gamma = noise<float>(1, columns, 2),
                beta = noise<float>(1, columns, 3);
    Rows<T> change = noise<T>(rows, columns, 4);
    Rows<float> gradient = noise<float>(rows, columns, 6);
    struct Results {
      Rows<float> output, normalised, factors, result, sums;
      Rows<T> rounded, rounded_gradient;
    };
    const auto run = [&](Isa isa, double rate) {
      Results r{{rows, columns}, {rows, columns}, {1, rows},      {rows, columns},
                {3, columns},    {rows, columns}, {rows, columns}};
      const TrainingKernels<T> kernels = training_kernels<T>(isa);
      kernels.add_norm({residual.data(), change.data(), rows, columns, gamma.data(), beta.data(),
                        1e-12F, r.output.data(), r.rounded.data(), r.normalised.data(),
                        r.factors.data(), dropout_of(rate)});
      std::copy(gradient.data(), gradient.data() + rows * columns, r.result.data());  // in place
      kernels.add_norm_gradient({r.result.data(), r.normalised.data(), r.factors.data(),
                                 gamma.data(), rows, columns, r.result.data(),
                                 r.rounded_gradient.data(), r.sums.data(), r.sums.data() + columns,
                                 r.sums.data() + 2 * columns, dropout_of(rate)});
      return r;
    };
    for (const Isa isa : supported_isas()) {
      for (const double rate : {0.0, 0.3}) {
        Results ours = run(isa, rate), twin = run(Isa::generic, rate);
        EXPECT_LE(difference(ours.output, twin.output), 5e-6) << to_string(isa) << " " << columns;
        EXPECT_LE(difference(ours.normalised, twin.normalised), 5e-6);
        EXPECT_LE(difference(ours.factors, twin.factors), 5e-6);
        EXPECT_LE(difference(ours.result, twin.result), 5e-6) << to_string(isa) << " " << columns;
        EXPECT_LE(difference(ours.sums, twin.sums), 2e-5) << to_string(isa) << " " << columns;
        EXPECT_LE(difference(ours.rounded, twin.rounded), tolerance<T>);
        EXPECT_LE(difference(ours.rounded_gradient, twin.rounded_gradient), tolerance<T>);
      }
    }
  }
}

TYPED_TEST(TrainingKernelsTest, ActivationsTheirSlopesAndColumnSums) {
  using T = TypeParam;
  constexpr std::int64_t rows = 13, columns = 52;
  Rows<T> input = noise<T>(rows, columns, 1, 3), gradient = noise<T>(rows, columns, 2);
  for (const Isa isa : supported_isas()) {
    for (const Activation activation :
         {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
      const auto run = [&](Isa level, Rows<T>& output, Rows<T>& result, Rows<float>& sums) {
        const TrainingKernels<T> kernels = training_kernels<T>(level);
        kernels.activation({input.data(), rows, columns, activation, output.data()});
        kernels.activation_gradient(
            {input.data(), gradient.data(), rows, columns, activation, result.data(), sums.data()});
        kernels.column_sums({input.data(), rows, columns, sums.data() + columns});
      };
      Rows<T> output(rows, columns), result(rows, columns), output_twin(rows, columns),
          result_twin(rows, columns);
      Rows<float> sums(2, columns), sums_twin(2, columns);
      run(isa, output, result, sums);
      run(Isa::generic, output_twin, result_twin, sums_twin);
      EXPECT_LE(difference(output, output_twin), tolerance<T>) << to_string(isa);
      EXPECT_LE(difference(result, result_twin), tolerance<T>)
          << to_string(isa) << " activation " << static_cast<int>(activation);
      EXPECT_LE(difference(sums, sums_twin), tolerance<T>) << to_string(isa);
    }
  }
}

// The twins themselves: slopes are derivatives of the activations, by differences.
TEST(TrainingKernels, SlopesAreDerivatives) {
  const TrainingKernels<float> kernels = training_kernels<float>(Isa::generic);
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh}) {
    for (const float x : {-3.0F, -0.7F, 0.0F, 0.4F, 2.5F}) {
      const float near[2] = {x - 0.01F, x + 0.01F}, one = 1;
      float values[2], slope = 0, sum = 0;
      kernels.activation({near, 1, 2, activation, values});
      kernels.activation_gradient({&x, &one, 1, 1, activation, &slope, &sum});
      EXPECT_NEAR((values[1] - values[0]) / 0.02F, slope, 1e-3) << x;
      EXPECT_EQ(sum, slope);
    }
  }
}

std::uint16_t bits_of(BFloat16 value) { return value.bits; }
float bits_of(float value) { return value; }

// Packed operands are where packed_index says, also in the middle of a joined matrix, and zeros
// where rows end.
TYPED_TEST(TrainingKernelsTest, EveryPackedElementIsInItsPlace) {
  using T = TypeParam;
  constexpr std::int64_t k_count = 96, columns = 160, first_k = 32, rows = 41;
  Rows<float> weight = noise<float>(64, 64, 1);
  Rows<T> values = noise<T>(rows, 64, 2);
  const auto bits_at = [](const PackedMatrix<T>& m, std::int64_t k, std::int64_t n) {
    return bits_of(m.values.data()[packed_index(m, k, n)]);
  };
  for (const Isa isa : supported_isas()) {
    const PackingKernels<T> kernels = packing_kernels<T>(isa);
    PackedMatrix<T> joined, by_rows, ragged;
    for (PackedMatrix<T>* m : {&joined, &by_rows, &ragged}) {
      m->rows = k_count;
      m->columns = columns;
      m->values.resize(k_count * columns);
    }
    kernels.weight({weight.data(), 64, 64, joined.values.data(), k_count, first_k, 2});
    kernels.weight_rows({weight.data(), 64, 64, by_rows.values.data(), k_count, first_k, 2});
    kernels.rows({values.data(), rows, 64, ragged.values.data(), k_count, first_k, 2});
    const Turned layout = turned<T>(rows);
    Rows<T> columns_first(1, layout.place(0, 64));
    kernels.transpose(values.data(), rows, 64, columns_first.data(), layout);
    for (std::int64_t i = 0; i < 64; ++i)
      for (std::int64_t j = 0; j < 64; ++j) {
        const auto wanted = bits_of(from_float<T>(weight.data()[i * 64 + j]));
        ASSERT_EQ(bits_at(joined, first_k + j, 64 + i), wanted) << to_string(isa);
        ASSERT_EQ(bits_at(by_rows, first_k + i, 64 + j), wanted) << to_string(isa);
        const auto value = bits_of(i < rows ? values.data()[i * 64 + j] : T{});
        ASSERT_EQ(bits_at(ragged, first_k + i, 64 + j), value) << to_string(isa);
        ASSERT_EQ(bits_of(columns_first.data()[layout.place(i, j)]), value) << to_string(isa);
      }
    EXPECT_EQ(bits_at(joined, 0, 64), 0);  // nothing outside the block is touched
    EXPECT_EQ(bits_at(joined, first_k, 128), 0);
  }
}

}  // namespace
}  // namespace gpuhpc::kernels
