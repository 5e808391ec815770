#include "cpu_relative.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "cpu_layer.hpp"
#include "plain_layer.hpp"

namespace gpuhpc {
namespace {

using kernels::BFloat16;
using kernels::Int8;
using kernels::kPanel;
using kernels::SplitBFloat16;

// queries and keys of a block: 63 distances, so at most three panels of positions
constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kPositions = 3 * kPanel;

// The columns of one head, packed.
template <typename W>
std::vector<kernels::PackedMatrix<W>> pack_heads(const at::Tensor& positions, std::int64_t heads) {
  std::vector<kernels::PackedMatrix<W>> result;
  for (const at::Tensor& head : positions.chunk(heads, 1)) {
    const at::Tensor own = head.contiguous();
    result.push_back(kernels::pack<W>({own.const_data_ptr<float>(), own.size(0), own.size(1)}));
  }
  return result;
}

}  // namespace

template <typename W>
RelativeLayer<W> pack_relative_layer(const Encoder& encoder, std::int64_t index) {
  const at::NoGradGuard guard;
  std::vector<at::Tensor> parameters = encoder.layer(index);
  const at::Tensor positions = encoder.position_vectors();
  parameters.insert(parameters.begin() + layer_parameters, positions);
  const auto [keys, queries] = position_keys_and_queries(parameters, positions, at::kFloat);
  return {pack_heads<W>(keys, encoder.config().heads),
          pack_heads<W>(queries, encoder.config().heads)};
}
template RelativeLayer<float> pack_relative_layer(const Encoder&, std::int64_t);
template RelativeLayer<SplitBFloat16> pack_relative_layer(const Encoder&, std::int64_t);
template RelativeLayer<BFloat16> pack_relative_layer(const Encoder&, std::int64_t);
template RelativeLayer<Int8> pack_relative_layer(const Encoder&, std::int64_t);

RelativeScores::RelativeScores(const RelativeAttention& relative, std::int64_t longest)
    : longest_(longest) {
  for (std::int64_t distance = longest - 1; distance > -longest; --distance)
    rows_.push_back(static_cast<std::int32_t>(relative.row(distance)));
}

template <typename T, typename W>
void RelativeScores::score_block(const kernels::EncoderKernels<T, W>& kernels,
                                 const RelativeLayer<W>& layer, std::int64_t head,
                                 const kernels::AttentionCall<T>& call, std::int64_t query,
                                 std::int64_t key, RelativeBuffers& buffers) const {
  const std::int64_t queries = std::min(kBlock, call.tokens - query),
                     keys = std::min(kBlock, call.tokens - key);
  const std::int32_t lowest = row(query, key + keys - 1), highest = row(query + queries - 1, key);
  const std::int64_t panel = lowest / kPanel, panels = highest / kPanel + 1 - panel;
  const auto multiply = [&](const T* content, std::int64_t count,
                            const kernels::PackedMatrix<W>& positions, float* output) {
    kernels::AccumulateCall<T, W> product{content,    call.qkv_stride, count,
                                          &positions, output,          kPositions};
    product.first_panel = panel;
    product.panels = panels;
    product.overwrite = true;
    kernels.accumulate(product);
  };
  const auto h = static_cast<std::size_t>(head);
  float* to_position = buffers.to_position.data() + kPanel;
  float* from_position = buffers.from_position.data() + kPanel;
  multiply(call.qkv + query * call.qkv_stride, queries, layer.keys[h], to_position);
  multiply(call.qkv + key * call.qkv_stride + call.key_column, keys, layer.queries[h],
           from_position);
  kernels.relative_scores({to_position, from_position, kPositions, queries, keys,
                           rows_.data() + longest_ - 1 + key - query, panel * kPanel,
                           highest - lowest == queries + keys - 2,
                           buffers.scores.data() + query * call.start_stride + key,
                           call.start_stride});
}

template <typename T, typename W>
void RelativeScores::attend(const kernels::EncoderKernels<T, W>& kernels,
                            const RelativeLayer<W>& layer, kernels::AttentionCall<T> call,
                            RelativeBuffers& buffers) const {
  call.start_stride = kernels::round_up(call.tokens, kPanel);
  for (auto* products : {&buffers.to_position, &buffers.from_position})
    products->resize(kBlock * kPositions + 2 * kPanel);
  buffers.scores.resize(call.start_stride * call.start_stride);
  call.start = buffers.scores.data();
  const std::int64_t heads = call.heads;
  call.heads = 1;
  for (std::int64_t head = 0; head < heads;
       ++head, call.qkv += call.head_size, call.output += call.head_size) {
    for (std::int64_t query = 0; query < call.tokens; query += kBlock)
      for (std::int64_t key = 0; key < call.tokens; key += kBlock)
        score_block(kernels, layer, head, call, query, key, buffers);
    kernels.attention(call);
  }
}
template void RelativeScores::attend(const kernels::EncoderKernels<float>&,
                                     const RelativeLayer<float>&, kernels::AttentionCall<float>,
                                     RelativeBuffers&) const;
template void RelativeScores::attend(const kernels::EncoderKernels<float, SplitBFloat16>&,
                                     const RelativeLayer<SplitBFloat16>&,
                                     kernels::AttentionCall<float>, RelativeBuffers&) const;
template void RelativeScores::attend(const kernels::EncoderKernels<BFloat16>&,
                                     const RelativeLayer<BFloat16>&,
                                     kernels::AttentionCall<BFloat16>, RelativeBuffers&) const;
template void RelativeScores::attend(const kernels::EncoderKernels<BFloat16, Int8>&,
                                     const RelativeLayer<Int8>&, kernels::AttentionCall<BFloat16>,
                                     RelativeBuffers&) const;

}  // namespace gpuhpc
