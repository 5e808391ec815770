// ModernBERT for inference on processors: layers whose norms leave the residual stream alone,
// rotary positions, a gated feed-forward part, and local layers that go through a document in
// pieces.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>

#include "cpu_forward.hpp"
#include "cpu_parts.hpp"
#include "cpu_products.hpp"
#include "cpu_slices.hpp"
#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/nn/encoder.hpp"
#include "modern_layer.hpp"

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
struct ModernWeights {
  PackedMatrix<W> qkv, attention_output;  // qkv: query, key, value side by side, each padded
  PackedMatrix<W> up, gate;
  std::vector<PackedMatrix<W>> down;     // one for each slice of `up`: the inputs that slice gives
  std::vector<float> before, wide_norm;  // before: empty in the first layer
  bool local = false;
};

template <typename W>
ModernWeights<W> read_modern_layer(const Encoder& encoder, std::int64_t index, const Slices& wide) {
  const std::vector<at::Tensor> p = encoder.layer(index);
  const EncoderConfig& config = encoder.config();
  const std::int64_t hidden = config.hidden_size, width = round_up(hidden, kPanel),
                     inner = config.intermediate_size;
  ModernWeights<W> layer;
  Matrix joined(3 * width, hidden);
  for (std::int64_t part = 0; part < 3; ++part)
    std::copy_n(weights(p[modern_qkv]).data + part * hidden * hidden, hidden * hidden,
                joined.row(part * width).data());
  layer.qkv = kernels::pack<W>(joined.view());
  layer.attention_output = kernels::pack<W>(weights(p[modern_attention]));
  const float* up = weights(p[modern_up]).data;
  layer.up = kernels::pack<W>(MatrixView{up, inner, hidden});
  layer.gate = kernels::pack<W>(MatrixView{up + inner * hidden, inner, hidden});
  layer.down = pack_slices<W>(weights(p[modern_down]), wide);
  layer.wide_norm = padded(p[modern_wide_norm]);
  if (p.size() > modern_norm_before) layer.before = padded(p[modern_norm_before]);
  layer.local = config.modern->local[static_cast<std::size_t>(index)];
  return layer;
}

// Rows are tokens of a micro-batch, rounded up to 32.
template <typename T, typename W>
struct ModernBuffers final : CpuWorkspace {
  AlignedBuffer<float> residual;  // (rows, H): residual stream, the place where products accumulate
  AlignedBuffer<W> input;         // (rows, H): the same, normalised and rounded
  AlignedBuffer<T> qkv;           // (rows, 3H)
  AlignedBuffer<T> context;       // (rows, H): attention's result
  AlignedBuffer<T> wide, gate;    // (rows of a block, slice of F)
  AlignedBuffer<std::byte> scratch;
};

// Cosines and sines (longest, D/2).
struct RotaryTable {
  std::vector<float> cosines, sines;
  RotaryTable(std::int64_t longest, double theta, std::int64_t head_size) {
    const at::NoGradGuard guard;
    const Rotation turn =
        rotation(at::arange(longest, at::TensorOptions().dtype(at::kLong)), theta, head_size);
    cosines = copied({turn.cosines.const_data_ptr<float>(), longest, head_size / 2});
    sines = copied({turn.sines.const_data_ptr<float>(), longest, head_size / 2});
  }
};

template <typename T, typename W = T>
class ModernForward final : public CpuForward {
 public:
  ModernForward(const Encoder& encoder, CpuPrecision precision, kernels::Isa isa)
      : CpuForward(encoder, precision, isa),
        kernels_(kernels::encoder_kernels<T, W>(isa)),
        more_kernels_(kernels::decoder_kernels<T>(isa)),
        width_(round_up(config().hidden_size, kPanel)),
        stride_(spread(width_)),
        input_stride_(input_stride<W>(width_)),
        qkv_stride_(spread(3 * width_)),
        activation_(kernel_activation(config().activation)),
        narrow_(3 * width_ / kPanel, slice_panels<W>(width_)),
        wide_(round_up(config().intermediate_size, kPanel) / kPanel, slice_panels<W>(2 * width_)),
        zeros_(static_cast<std::size_t>(
            std::max(3 * width_, round_up(config().intermediate_size, kPanel)))),
        word_(copied(weights(encoder.parameter(word_table(config()))))),
        first_norm_(padded(encoder.parameter("embeddings.norm.weight"))),
        last_norm_(padded(encoder.parameter("final_norm.weight"))),
        global_(config().max_tokens(), config().modern->global_theta, config().head_size()),
        local_(config().max_tokens(), config().modern->local_theta, config().head_size()),
        margin_(round_up(config().modern->window, kPanel)),
        piece_(std::max(kPanel, round_up(2 * config().modern->window, kPanel))) {
    const std::int64_t window = config().modern->window, reach = piece_ + 2 * margin_;
    for (std::int64_t distance = 1 - reach; distance < reach; ++distance)
      near_.push_back(std::abs(distance) <= window ? 0.0F : -1e30F);
    for (std::int64_t i = 0; i < config().layers; ++i)
      layers_.push_back(read_modern_layer<W>(encoder, i, wide_));
  }

  std::unique_ptr<CpuWorkspace> make_workspace() const override {
    return std::make_unique<ModernBuffers<T, W>>();
  }
  std::int64_t rows_at_once() const override { return 384; }

  Rows run(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t first,
           std::int64_t last, std::int64_t layers, bool first_tokens) const override {
    auto& buffers = dynamic_cast<ModernBuffers<T, W>&>(workspace);
    std::int64_t rows = documents.offsets[static_cast<std::size_t>(last)] -
                        documents.offsets[static_cast<std::size_t>(first)];
    resize(buffers, round_up(rows, 32));
    const kernels::KernelScope<T, W> scope(kernels_);
    Stopwatch watch(workspace);
    add_words(buffers, documents, first, last);
    normalise(buffers, rows, first_norm_, false);
    watch.mark(&CpuWorkspace::Times::other);
    for (std::int64_t i = 0; i < layers; ++i) {
      const ModernWeights<W>& layer = layers_[static_cast<std::size_t>(i)];
      const ModernWeights<W>* next =
          i + 1 < layers ? &layers_[static_cast<std::size_t>(i) + 1] : nullptr;
      if (!layer.before.empty()) normalise(buffers, rows, layer.before, true);
      watch.mark(&CpuWorkspace::Times::other);
      project(buffers, rows, layer);
      watch.mark(&CpuWorkspace::Times::linear);
      attend(buffers, documents, first, last, layer);
      watch.mark(&CpuWorkspace::Times::attention);
      if (first_tokens && i + 1 == config().layers)
        rows = keep_first_tokens(documents, first, last, stride_, buffers.context.data(),
                                 buffers.residual.data());
      kernels_.accumulate({buffers.context.data(), stride_, rows, &layer.attention_output,
                           buffers.residual.data(), stride_, panels_of(layer.up, wide_, 0)});
      watch.mark(&CpuWorkspace::Times::linear);
      normalise(buffers, rows, layer.wide_norm, true);
      watch.mark(&CpuWorkspace::Times::other);
      feed_forward(buffers, rows, layer, next);
      watch.mark(&CpuWorkspace::Times::linear);
    }
    if (layers == config().layers) normalise(buffers, rows, last_norm_, false);
    watch.mark(&CpuWorkspace::Times::other);
    return {buffers.residual.data(), stride_};
  }

 private:
  void resize(ModernBuffers<T, W>& buffers, std::int64_t rows) const {
    buffers.residual.resize(rows * stride_);
    buffers.input.resize(rows * input_stride_);
    buffers.qkv.resize((rows + 32) * qkv_stride_);  // attention reads behind a document
    buffers.context.resize(rows * stride_);
    buffers.wide.resize(kRowBlock * wide_.each * kPanel);
    buffers.gate.resize(kRowBlock * wide_.each * kPanel);
    buffers.scratch.resize(kernels::attention_scratch_bytes(std::min(rows, config().max_tokens()),
                                                            config().head_size()));
  }

  void add_words(ModernBuffers<T, W>& buffers, const PackedIds& documents, std::int64_t first,
                 std::int64_t last) const {
    const std::int64_t begin = documents.offsets[static_cast<std::size_t>(first)],
                       end = documents.offsets[static_cast<std::size_t>(last)],
                       hidden = config().hidden_size;
    float* row = buffers.residual.data();
    for (std::int64_t t = begin; t < end; ++t, row += stride_) {
      const std::int64_t id = documents.token_ids[static_cast<std::size_t>(t)];
      if (id < 0 || id >= config().vocabulary_size)
        throw internal_error("token id {} of a vocabulary of {}", id, config().vocabulary_size);
      std::copy_n(word_.data() + id * hidden, hidden, row);
    }
    std::fill_n(row, (round_up(end - begin, 32) - (end - begin)) * stride_, 0.0F);
  }

  // residual -> input; unless `keep`, the residual stream becomes the same.
  void normalise(ModernBuffers<T, W>& buffers, std::int64_t rows, const std::vector<float>& gamma,
                 bool keep) const {
    kernels_.layer_norm({buffers.residual.data(), stride_, round_up(rows, 32), config().hidden_size,
                         gamma.data(), zeros_.data(),
                         static_cast<float>(config().layer_norm_epsilon), nullptr,
                         buffers.input.data(), input_stride_, keep});
  }

  // input -> queries, keys and values
  void project(ModernBuffers<T, W>& buffers, std::int64_t rows,
               const ModernWeights<W>& layer) const {
    for (std::int64_t slice = 0; slice < narrow_.count(); ++slice) {
      const std::int64_t p = narrow_.first(slice);
      const bool more = slice + 1 < narrow_.count();
      kernels_.linear(
          {buffers.input.data(), input_stride_, rows, &layer.qkv, p, narrow_.size(slice),
           zeros_.data(), kernels::Activation::none, buffers.qkv.data() + p * kPanel, qkv_stride_,
           more ? panels_of(layer.qkv, narrow_, slice + 1) : whole(layer.attention_output)});
    }
  }

  // Document by document: queries and keys are turned, then attention -> context.
  void attend(ModernBuffers<T, W>& buffers, const PackedIds& documents, std::int64_t first,
              std::int64_t last, const ModernWeights<W>& layer) const {
    const RotaryTable& table = layer.local ? local_ : global_;
    const std::int64_t begin = documents.offsets[static_cast<std::size_t>(first)];
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t row = documents.offsets[static_cast<std::size_t>(b)] - begin;
      T* const rows = buffers.qkv.data() + row * qkv_stride_;
      kernels::AttentionCall<T> call{rows,
                                     qkv_stride_,
                                     width_,
                                     2 * width_,
                                     documents.length(b),
                                     config().heads,
                                     config().head_size(),
                                     1.0F / std::sqrt(static_cast<float>(config().head_size())),
                                     buffers.context.data() + row * stride_,
                                     stride_,
                                     buffers.scratch.data()};
      for (T* const values : {rows, rows + width_})
        more_kernels_.rotary({values, qkv_stride_, call.tokens, call.heads, call.head_size,
                              table.cosines.data(), table.sines.data()});
      if (layer.local && call.tokens > config().modern->window + 1)
        attend_near(call);
      else
        kernels_.attention(call);
    }
  }

  // Queries in pieces, each with the keys that one of them sees: cut from the document's beginning,
  // so that its neighbours do not matter.
  void attend_near(const kernels::AttentionCall<T>& document) const {
    for (std::int64_t from = 0; from < document.tokens; from += piece_) {
      const std::int64_t low = std::max<std::int64_t>(0, from - margin_),
                         to = std::min(document.tokens, from + piece_),
                         high = std::min(document.tokens, to + margin_);
      kernels::AttentionCall<T> call = document;
      call.qkv += low * call.qkv_stride, call.output += low * call.output_stride;
      call.tokens = high - low;
      call.first_query = from - low, call.queries = to - from;
      call.start = near_.data() + near_.size() / 2, call.start_stride = -1;
      kernels_.attention(call);
    }
  }

  // Slice by slice of the wide dimension, whose activations are never stored whole.
  void feed_forward(ModernBuffers<T, W>& buffers, std::int64_t rows, const ModernWeights<W>& layer,
                    const ModernWeights<W>* following) const {
    const std::int64_t stride = wide_.each * kPanel;
    for (std::int64_t slice = 0; slice < wide_.count(); ++slice) {
      const bool more = slice + 1 < wide_.count();
      const PackedMatrix<W>& down = layer.down[static_cast<std::size_t>(slice)];
      kernels::Prefetch next_up, next_down;
      if (more)
        next_up = panels_of(layer.up, wide_, slice + 1);
      else if (following != nullptr)
        next_up = panels_of(following->qkv, narrow_, 0);
      if (more) next_down = whole(layer.down[static_cast<std::size_t>(slice) + 1]);
      for (std::int64_t row = 0; row < rows; row += kRowBlock) {
        const std::int64_t count = std::min(kRowBlock, rows - row);
        const auto up = [&](const PackedMatrix<W>& weight, kernels::Activation activation,
                            T* output, kernels::Prefetch next) {
          kernels_.linear({buffers.input.data() + row * input_stride_, input_stride_, count,
                           &weight, wide_.first(slice), wide_.size(slice), zeros_.data(),
                           activation, output, stride, share(next, row, count, rows)});
        };
        up(layer.up, activation_, buffers.wide.data(), panels_of(layer.gate, wide_, slice));
        up(layer.gate, kernels::Activation::none, buffers.gate.data(), next_up);
        more_kernels_.gate(
            {buffers.wide.data(), buffers.gate.data(), stride, count, wide_.size(slice) * kPanel});
        kernels_.accumulate({buffers.wide.data(), stride, count, &down,
                             buffers.residual.data() + row * stride_, stride_,
                             share(next_down, row, count, rows)});
      }
    }
  }

  kernels::EncoderKernels<T, W> kernels_;
  kernels::DecoderKernels<T> more_kernels_;
  std::int64_t width_;  // H rounded up to 32
  std::int64_t stride_, input_stride_,
      qkv_stride_;  // from row to row of what has width_ and 3 * width_ columns
  kernels::Activation activation_;
  Slices narrow_, wide_;      // of the query-key-value product and of the feed-forward part
  std::vector<float> zeros_;  // in place of biases
  std::vector<float> word_, first_norm_, last_norm_;
  RotaryTable global_, local_;
  std::int64_t margin_, piece_;  // of local layers: keys beside a piece, its queries
  std::vector<float> near_;      // by distance: what scores of local layers start from
  std::vector<ModernWeights<W>> layers_;
};

}  // namespace

std::unique_ptr<CpuForward> make_cpu_modern(const Encoder& encoder, CpuPrecision precision,
                                            kernels::Isa isa) {
  switch (precision) {
    case CpuPrecision::fp32:
      return std::make_unique<ModernForward<float>>(encoder, precision, isa);
    case CpuPrecision::tf32:
      return std::make_unique<ModernForward<float, SplitBFloat16>>(encoder, precision, isa);
    case CpuPrecision::bf16:
      return std::make_unique<ModernForward<BFloat16>>(encoder, precision, isa);
    case CpuPrecision::int8:
      return std::make_unique<ModernForward<BFloat16, Int8>>(encoder, precision, isa);
  }
  throw internal_error("precision {} is unknown", static_cast<int>(precision));
}

}  // namespace gpuhpc
