#pragma once
// For int8: a few channels of an encoder's activations are far larger than the rest, whatever the
// text, and take the steps away from all others of a row. They are divided by a factor, and what
// they are multiplied with multiplied by it: the same products in exact arithmetic (Xiao et al.,
// 2023, SmoothQuant, equation 4 with alpha 1/2). How large they are is seen on made-up texts, in
// bf16. Private to room nn.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/nn/encoder_config.hpp"

namespace gpuhpc {

// The largest size of every channel behind every layer norm, in the order of their calls.
using ChannelSizes = std::vector<std::vector<float>>;

inline std::vector<float> channel_sizes(const kernels::BFloat16* rows, std::int64_t stride,
                                        std::int64_t count, std::int64_t columns) {
  std::vector<float> sizes(static_cast<std::size_t>(columns));
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      float& size = sizes[static_cast<std::size_t>(c)];
      size = std::max(size, std::abs(to_float(rows[r * stride + c])));
    }
  return sizes;
}

// Two texts of any tokens.
inline PackedIds made_up_texts(const EncoderConfig& config) {
  PackedIds texts;
  std::mt19937 random(1);
  for (int text = 0; text < 2; ++text) {
    for (std::int64_t t = 0; t < std::min<std::int64_t>(128, config.max_tokens()); ++t)
      texts.token_ids.push_back(
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(config.vocabulary_size)));
    texts.offsets.push_back(static_cast<std::int32_t>(texts.token_ids.size()));
    texts.documents.push_back(text);
  }
  return texts;
}

// What each channel is divided by; without sizes 1.
inline std::vector<float> smoothing(const std::vector<float>& sizes, MatrixView weight) {
  std::vector<float> factors(static_cast<std::size_t>(weight.columns), 1.0F);
  if (sizes.empty()) return factors;
  std::vector<float> largest(factors.size());
  for (std::int64_t r = 0; r < weight.rows; ++r)
    for (std::size_t c = 0; c < factors.size(); ++c)
      largest[c] = std::max(largest[c], std::abs(weight.row(r)[c]));
  for (std::size_t c = 0; c < factors.size(); ++c)
    if (const float factor = std::sqrt(sizes[c] / largest[c]); factor > 1e-6F && factor < 1e6F)
      factors[c] = factor;  // a channel of zeros stays as it is
  return factors;
}

inline Matrix with_columns_times(MatrixView weight, const std::vector<float>& factors) {
  Matrix result(weight.rows, weight.columns);
  for (std::int64_t r = 0; r < weight.rows; ++r)
    for (std::size_t c = 0; c < factors.size(); ++c)
      result.row(r)[c] = weight.row(r)[c] * factors[c];
  return result;
}

inline std::vector<float> reciprocals(std::vector<float> factors) {
  for (float& factor : factors) factor = 1.0F / factor;
  return factors;
}

}  // namespace gpuhpc
