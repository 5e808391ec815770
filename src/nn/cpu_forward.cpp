#include "cpu_forward.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cpu_layer.hpp"
#include "cpu_parts.hpp"
#include "cpu_products.hpp"
#include "cpu_relative.hpp"
#include "cpu_slices.hpp"
#include "cpu_smoothing.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {
namespace {

using kernels::AlignedBuffer;
using kernels::BFloat16;
using kernels::Int8;
using kernels::kPanel;
using kernels::PackedMatrix;
using kernels::round_up;
using kernels::SplitBFloat16;

template <typename W>
struct Layer {
  PackedMatrix<W> qkv, attention_output, up;  // qkv: query, key, value side by side, each padded
  std::vector<PackedMatrix<W>> down;  // one for each slice of `up`: the inputs that slice gives
  std::vector<float> qkv_bias, attention_output_bias, up_bias, down_bias;
  std::vector<float> attention_gamma, attention_beta, output_gamma, output_beta;
  std::vector<float> qkv_shares, up_shares;  // int8: of what goes into these products; else empty
  RelativeLayer<W> relative;                 // DeBERTa
};

// The weight behind layer norm `norm`, and in `shares` what that norm's result is multiplied by.
template <typename W>
PackedMatrix<W> pack_smoothed(MatrixView weight, const ChannelSizes& sizes, std::int64_t norm,
                              std::vector<float>& shares) {
  if (sizes.empty()) return kernels::pack<W>(weight);
  const std::vector<float> factors = smoothing(sizes.at(static_cast<std::size_t>(norm)), weight);
  shares = reciprocals(factors);
  return kernels::pack<W>(with_columns_times(weight, factors).view());
}

template <typename W>
Layer<W> read_layer(const Encoder& encoder, std::int64_t index, const Slices& wide,
                    const ChannelSizes& sizes) {
  const std::vector<at::Tensor> p = encoder.layer(index);
  const std::int64_t hidden = encoder.config().hidden_size, width = round_up(hidden, kPanel);
  Layer<W> layer;
  Matrix joined(3 * width, hidden);
  std::int64_t row = 0;
  for (const LayerParameter part : {query_weight, key_weight, value_weight}) {
    std::copy_n(weights(p[part]).data, hidden * hidden, joined.row(row).data());
    const std::vector<float> bias = padded(p[part + 1]);
    layer.qkv_bias.insert(layer.qkv_bias.end(), bias.begin(), bias.end());
    row += width;
  }
  layer.qkv = pack_smoothed<W>(joined.view(), sizes, 2 * index, layer.qkv_shares);
  layer.attention_output = kernels::pack<W>(weights(p[attention_weight]));
  layer.attention_output_bias = padded(p[attention_bias]);
  layer.attention_gamma = padded(p[attention_norm_weight]);
  layer.attention_beta = padded(p[attention_norm_bias]);
  layer.up =
      pack_smoothed<W>(weights(p[intermediate_weight]), sizes, 2 * index + 1, layer.up_shares);
  layer.up_bias = padded(p[intermediate_bias]);
  layer.down = pack_slices<W>(weights(p[output_weight]), wide);
  layer.down_bias = padded(p[output_bias]);
  layer.output_gamma = padded(p[output_norm_weight]);
  layer.output_beta = padded(p[output_norm_bias]);
  if (encoder.config().relative) layer.relative = pack_relative_layer<W>(encoder, index);
  return layer;
}

// Rows are tokens of a micro-batch, rounded up to 32.
template <typename T, typename W>
struct Buffers final : CpuWorkspace {
  AlignedBuffer<float> residual;  // (rows, H): residual stream, the place where products accumulate
  AlignedBuffer<W> input;         // (rows, H): the same, normalised and rounded
  AlignedBuffer<T> qkv;           // (rows, 3H)
  AlignedBuffer<T> context;       // (rows, H): attention's result
  AlignedBuffer<T> wide;          // (rows of a block, slice of F)
  AlignedBuffer<std::byte> scratch;
  RelativeBuffers relative;
  ChannelSizes* sizes = nullptr;  // are noted here
};

template <typename T, typename W = T>
class TypedForward final : public CpuForward {
 public:
  TypedForward(const Encoder& encoder, CpuPrecision precision, kernels::Isa isa,
               const ChannelSizes& sizes = {})
      : CpuForward(encoder, precision, isa),
        kernels_(kernels::encoder_kernels<T, W>(isa)),
        width_(round_up(config().hidden_size, kPanel)),
        stride_(spread(width_)),
        input_stride_(input_stride<W>(width_)),
        qkv_stride_(spread(3 * width_)),
        activation_(kernel_activation(config().activation)),
        narrow_(3 * width_ / kPanel, slice_panels<W>(width_)),
        wide_(round_up(config().intermediate_size, kPanel) / kPanel, slice_panels<W>(width_)) {
    const auto table = [&](const char* name) { return copied(weights(encoder.parameter(name))); };
    word_ = table("embeddings.word_embeddings.weight");
    if (config().position_table) position_ = table("embeddings.position_embeddings.weight");
    if (config().token_types > 0) segment_ = table("embeddings.token_type_embeddings.weight");
    gamma_ = padded(encoder.parameter("embeddings.LayerNorm.weight"));
    beta_ = padded(encoder.parameter("embeddings.LayerNorm.bias"));
    if (config().relative) relative_.emplace(*config().relative, config().max_tokens());
    if (config().distances) {
      const at::NoGradGuard guard;
      const at::Tensor bias =
          distance_bias(encoder.parameter("encoder.relative_attention_bias.weight"),
                        *config().distances, bias_reach(config().max_tokens())) *
          std::sqrt(static_cast<double>(config().head_size()));
      bias_ = copied(weights(bias));
      bias_columns_ = bias.size(1);
    }
    for (std::int64_t i = 0; i < config().layers; ++i)
      layers_.push_back(read_layer<W>(encoder, i, wide_, sizes));
  }

  std::unique_ptr<CpuWorkspace> make_workspace() const override {
    return std::make_unique<Buffers<T, W>>();
  }
  std::int64_t rows_at_once() const override { return 384; }

  Rows run(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t first,
           std::int64_t last, std::int64_t layers, bool first_tokens) const override {
    auto& buffers = dynamic_cast<Buffers<T, W>&>(workspace);
    const std::int64_t begin = documents.offsets[static_cast<std::size_t>(first)];
    std::int64_t rows = documents.offsets[static_cast<std::size_t>(last)] - begin;
    resize(buffers, round_up(rows, 32));
    const kernels::KernelScope<T, W> scope(kernels_);
    Stopwatch watch(workspace);
    for (std::int64_t b = first; b < last; ++b)
      add_embeddings(documents, b,
                     buffers.residual.data() +
                         (documents.offsets[static_cast<std::size_t>(b)] - begin) * stride_);
    std::fill_n(buffers.residual.data() + rows * stride_, (round_up(rows, 32) - rows) * stride_,
                0.0F);
    const bool none = layers == 0;
    normalise(buffers, rows, gamma_, beta_,
              none ? nullptr : layers_[0].attention_output_bias.data(),
              none ? nullptr : &layers_[0].qkv_shares);
    watch.mark(&CpuWorkspace::Times::other);
    for (std::int64_t i = 0; i < layers; ++i) {
      const Layer<W>* next = i + 1 < layers ? &layers_[static_cast<std::size_t>(i) + 1] : nullptr;
      attend(buffers, documents, first, last, rows, layers_[static_cast<std::size_t>(i)], watch);
      if (first_tokens && next == nullptr)
        rows = keep_first_tokens(documents, first, last, stride_, buffers.context.data(),
                                 buffers.residual.data());
      finish_layer(buffers, rows, layers_[static_cast<std::size_t>(i)], next, watch);
    }
    return {buffers.residual.data(), stride_};
  }

 private:
  void resize(Buffers<T, W>& buffers, std::int64_t rows) const {
    buffers.residual.resize(rows * stride_);
    buffers.input.resize(rows * input_stride_);
    buffers.qkv.resize((rows + 32) *
                       qkv_stride_);  // attention reads up to 31 rows behind a document
    buffers.context.resize(rows * stride_);
    buffers.wide.resize(kRowBlock * wide_.each * kPanel);
    buffers.scratch.resize(kernels::attention_scratch_bytes(std::min(rows, config().max_tokens()),
                                                            config().head_size()));
  }

  // Word + position + segment vectors of one document.
  void add_embeddings(const PackedIds& documents, std::int64_t document, float* rows) const {
    const auto b = static_cast<std::size_t>(document);
    const std::int64_t begin = documents.offsets[b], end = documents.offsets[b + 1],
                       hidden = config().hidden_size;
    for (std::int64_t t = begin; t < end; ++t, rows += stride_) {
      const std::int64_t id = documents.token_ids[static_cast<std::size_t>(t)];
      const std::int64_t segment =
          documents.segments.empty() ? 0 : documents.segments[static_cast<std::size_t>(t)];
      if (id < 0 || id >= config().vocabulary_size)
        throw internal_error("token id {} of a vocabulary of {}", id, config().vocabulary_size);
      std::copy_n(word_.data() + id * hidden, hidden, rows);
      if (!position_.empty())
        add(rows, position_.data() + (t - begin + config().position_offset) * hidden);
      if (segment_.empty()) continue;
      if (segment < 0 || segment >= config().token_types)
        throw internal_error("segment id {} of {}", segment, config().token_types);
      add(rows, segment_.data() + segment * hidden);
    }
  }
  void add(float* row, const float* vector) const {
    for (std::int64_t i = 0; i < config().hidden_size; ++i) row[i] += vector[i];
  }

  void normalise(Buffers<T, W>& buffers, std::int64_t rows, const std::vector<float>& gamma,
                 const std::vector<float>& beta, const float* next_bias,
                 const std::vector<float>* shares) const {
    kernels_.layer_norm({buffers.residual.data(), stride_, round_up(rows, 32), config().hidden_size,
                         gamma.data(), beta.data(), static_cast<float>(config().layer_norm_epsilon),
                         next_bias, buffers.input.data(), input_stride_, false,
                         shares == nullptr || shares->empty() ? nullptr : shares->data()});
    if constexpr (std::is_same_v<W, BFloat16>)
      if (buffers.sizes != nullptr)
        buffers.sizes->push_back(
            channel_sizes(buffers.input.data(), input_stride_, rows, config().hidden_size));
  }

  // The first half of a layer: input -> context.
  void attend(Buffers<T, W>& buffers, const PackedIds& documents, std::int64_t first,
              std::int64_t last, std::int64_t rows, const Layer<W>& layer, Stopwatch& watch) const {
    for (std::int64_t slice = 0; slice < narrow_.count(); ++slice) {
      const std::int64_t p = narrow_.first(slice);
      const bool more = slice + 1 < narrow_.count();
      kernels_.linear(
          {buffers.input.data(), input_stride_, rows, &layer.qkv, p, narrow_.size(slice),
           layer.qkv_bias.data(), kernels::Activation::none, buffers.qkv.data() + p * kPanel,
           qkv_stride_,
           more ? panels_of(layer.qkv, narrow_, slice + 1) : whole(layer.attention_output)});
    }
    watch.mark(&CpuWorkspace::Times::linear);
    const float kinds = config().relative ? 3.0F : 1.0F;  // of scores that are added up
    const float scale = 1.0F / std::sqrt(kinds * static_cast<float>(config().head_size()));
    const std::int64_t begin = documents.offsets[static_cast<std::size_t>(first)];
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t row = documents.offsets[static_cast<std::size_t>(b)] - begin;
      const std::int64_t tokens = documents.offsets[static_cast<std::size_t>(b) + 1] - begin - row;
      const kernels::AttentionCall<T> call{
          buffers.qkv.data() + row * qkv_stride_,
          qkv_stride_,
          width_,
          2 * width_,
          tokens,
          config().heads,
          config().head_size(),
          scale,
          buffers.context.data() + row * stride_,
          stride_,
          buffers.scratch.data(),
          bias_.empty() ? nullptr : bias_.data() + (bias_columns_ - 1) / 2,
          -1,
          bias_columns_};
      if (relative_)
        relative_->attend(kernels_, layer.relative, call, buffers.relative);
      else
        kernels_.attention(call);
    }
    watch.mark(&CpuWorkspace::Times::attention);
  }

  // The second half: context and residual -> residual, and input of the next layer if there is one.
  void finish_layer(Buffers<T, W>& buffers, std::int64_t rows, const Layer<W>& layer,
                    const Layer<W>* next, Stopwatch& watch) const {
    kernels_.accumulate({buffers.context.data(), stride_, rows, &layer.attention_output,
                         buffers.residual.data(), stride_, panels_of(layer.up, wide_, 0)});
    watch.mark(&CpuWorkspace::Times::linear);
    normalise(buffers, rows, layer.attention_gamma, layer.attention_beta, layer.down_bias.data(),
              &layer.up_shares);
    watch.mark(&CpuWorkspace::Times::other);
    feed_forward(buffers, rows, layer, next == nullptr ? nullptr : &next->qkv);
    watch.mark(&CpuWorkspace::Times::linear);
    normalise(buffers, rows, layer.output_gamma, layer.output_beta,
              next == nullptr ? nullptr : next->attention_output_bias.data(),
              next == nullptr ? nullptr : &next->qkv_shares);
    watch.mark(&CpuWorkspace::Times::other);
  }

  // Slice by slice of the wide dimension, whose activations are never stored whole. `following`:
  // the next layer's first weights.
  void feed_forward(Buffers<T, W>& buffers, std::int64_t rows, const Layer<W>& layer,
                    const PackedMatrix<W>* following) const {
    for (std::int64_t slice = 0; slice < wide_.count(); ++slice) {
      const std::int64_t stride = wide_.each * kPanel;
      const bool more = slice + 1 < wide_.count();
      const PackedMatrix<W>& down = layer.down[static_cast<std::size_t>(slice)];
      kernels::Prefetch next_up, next_down;
      if (more)
        next_up = panels_of(layer.up, wide_, slice + 1);
      else if (following != nullptr)
        next_up = panels_of(*following, narrow_, 0);
      if (more) next_down = whole(layer.down[static_cast<std::size_t>(slice) + 1]);
      for (std::int64_t row = 0; row < rows; row += kRowBlock) {
        const std::int64_t count = std::min(kRowBlock, rows - row);
        kernels_.linear({buffers.input.data() + row * input_stride_, input_stride_, count,
                         &layer.up, wide_.first(slice), wide_.size(slice), layer.up_bias.data(),
                         activation_, buffers.wide.data(), stride,
                         share(next_up, row, count, rows)});
        kernels_.accumulate({buffers.wide.data(), stride, count, &down,
                             buffers.residual.data() + row * stride_, stride_,
                             share(next_down, row, count, rows)});
      }
    }
  }

  kernels::EncoderKernels<T, W> kernels_;
  std::int64_t width_;  // H rounded up to 32
  std::int64_t stride_, input_stride_,
      qkv_stride_;  // from row to row of what has width_ and 3 * width_ columns
  kernels::Activation activation_;
  Slices narrow_, wide_;  // of the query-key-value product and of the feed-forward layer
  std::vector<float> word_, position_, segment_, gamma_, beta_;
  std::vector<Layer<W>> layers_;
  std::optional<RelativeScores> relative_;  // DeBERTa
  std::vector<float> bias_;  // MPNet: (A, columns) by distance, times sqrt(head size)
  std::int64_t bias_columns_ = 0;
};

std::unique_ptr<CpuForward> make_int8(const Encoder& encoder, kernels::Isa isa) {
  ChannelSizes sizes;
  {
    const TypedForward<BFloat16> rounded(encoder, CpuPrecision::bf16, isa);
    Buffers<BFloat16, BFloat16> buffers;
    buffers.sizes = &sizes;
    const PackedIds texts = made_up_texts(encoder.config());
    rounded.run(buffers, texts, 0, texts.size(), encoder.config().layers, false);
  }
  return std::make_unique<TypedForward<BFloat16, Int8>>(encoder, CpuPrecision::int8, isa, sizes);
}

}  // namespace

std::unique_ptr<CpuForward> make_cpu_forward(const Encoder& encoder, CpuPrecision precision,
                                             kernels::Isa isa) {
  if (encoder.config().modern) return make_cpu_modern(encoder, precision, isa);
  switch (precision) {
    case CpuPrecision::fp32:
      return std::make_unique<TypedForward<float>>(encoder, precision, isa);
    case CpuPrecision::tf32:
      return std::make_unique<TypedForward<float, SplitBFloat16>>(encoder, precision, isa);
    case CpuPrecision::bf16:
      return std::make_unique<TypedForward<BFloat16>>(encoder, precision, isa);
    case CpuPrecision::int8:
      return make_int8(encoder, isa);
  }
  throw internal_error("precision {} is unknown", static_cast<int>(precision));
}

}  // namespace gpuhpc
