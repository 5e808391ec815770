#pragma once
// A T5's weights as generation on processors reads them: packed, in slices that fit the cache,
// heads padded to 32; private to room nn. Legend as in cpu_t5.hpp, H hidden size.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu_slices.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/nn/host_matrices.hpp"
#include "gpuhpc/nn/ops.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {

// A matrix, and what is read behind each slice of it.
template <typename T>
struct SlicedWeight {
  kernels::PackedMatrix<T> packed;
  Slices slices;
  std::vector<kernels::Prefetch> next;

  SlicedWeight() = default;
  explicit SlicedWeight(kernels::PackedMatrix<T> matrix)
      : packed(std::move(matrix)),
        slices(packed.panels(), slice_panels<T>(packed.rows)),
        next(static_cast<std::size_t>(slices.count())) {}
};

// Attention or feed-forward: its norm, what multiplies the normed rows and what leads back to them.
template <typename T>
struct T5Part {
  std::vector<float> norm;
  SlicedWeight<T> in, gate;          // gate: of a gated feed-forward
  std::vector<SlicedWeight<T>> out;  // of a feed-forward one for each slice of `in`
};

// Puts weights one behind the other in the order in which a pass reads them.
template <typename T>
class ReadingOrder {
 public:
  void add(SlicedWeight<T>& weight, std::int64_t slice) {
    const kernels::Prefetch own = panels_of(weight.packed, weight.slices, slice);
    if (last_ == nullptr)
      first_ = own;
    else
      *last_ = own;
    last_ = &weight.next[static_cast<std::size_t>(slice)];
  }
  void add(SlicedWeight<T>& weight) {
    for (std::int64_t slice = 0; slice < weight.slices.count(); ++slice) add(weight, slice);
  }
  void add_attention(T5Part<T>& part) { add(part.in), add(part.out[0]); }
  void add_feed_forward(T5Part<T>& part) {
    for (std::int64_t slice = 0; slice < part.in.slices.count(); ++slice) {
      add(part.in, slice);
      if (!part.gate.next.empty()) add(part.gate, slice);
      add(part.out[static_cast<std::size_t>(slice)]);
    }
  }
  void close() { *last_ = first_; }  // the next pass is alike

 private:
  kernels::Prefetch first_;
  kernels::Prefetch* last_ = nullptr;
};

template <typename T>
struct T5EncoderLayer {
  T5Part<T> attention, feed_forward;
};
template <typename T>
struct T5DecoderLayer {
  T5Part<T> attention, source, feed_forward;
  SlicedWeight<T> source_keys;  // and values
};

// A number for each head and distance of the key from the query: (A, 2 reach - 1).
struct DistanceTable {
  Matrix values;
  DistanceTable(const at::Tensor& table, const DistanceBuckets& buckets, std::int64_t longest)
      : values(to_matrix(distance_bias(table, buckets, kernels::round_up(longest, 32)))) {}
  const float* at_distance_0() const { return values.values.data() + values.columns / 2; }
};

inline std::vector<float> padded_floats(const at::Tensor& vector, double scale = 1) {
  std::vector<float> all = to_matrix(vector).values;
  for (float& value : all) value = static_cast<float>(value * scale);
  all.resize(static_cast<std::size_t>(kernels::round_up(std::ssize(all), kernels::kPanel)));
  return all;
}

// All that one precision and instruction set make of a model.
template <typename T>
class T5Weights {
 public:
  T5Weights(const T5& model, kernels::Isa isa, std::int64_t longest_source, std::int64_t longest)
      : config(model.config()),
        head_size(kernels::round_up(config.head_size, 32)),
        width(kernels::round_up(config.hidden_size, kernels::kPanel)),
        inner(config.heads * head_size),
        longest_text(longest),
        encoder_kernels(kernels::encoder_kernels<T>(isa)),
        decoder_kernels(kernels::decoder_kernels<T>(isa)),
        words(model.words().detach()),
        source_bias(model.bias_table(false).detach(), config.buckets(false), longest_source),
        text_bias(model.bias_table(true).detach(), config.buckets(true), longest),
        source_norm(padded_floats(model.final_norm(false))),
        // what the head wants before it
        text_norm(padded_floats(
            model.final_norm(true),
            config.scaled_head ? 1 / std::sqrt(static_cast<double>(config.hidden_size)) : 1)),
        head(kernels::pack<T>(to_matrix(model.head()).view())) {
    if (!words.is_cpu() || !words.is_contiguous())
      throw internal_error("the T5 of processors needs contiguous CPU weights");
    for (std::int64_t i = 0; i < config.layers; ++i) {
      const std::vector<at::Tensor> p = model.layer(false, i);
      layers.push_back({attention(&p[0], {p[0], p[1], p[2]}), feed_forward(&p[5], p.back())});
    }
    for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
      const std::vector<at::Tensor> p = model.layer(true, i);
      decoder_layers.push_back({attention(&p[0], {p[0], p[1], p[2]}), attention(&p[5], {p[5]}),
                                feed_forward(&p[10], p.back()),
                                SlicedWeight<T>(by_heads({p[6], p[7]}))});
    }
    ReadingOrder<T> sources, texts;
    for (T5EncoderLayer<T>& layer : layers)
      sources.add_attention(layer.attention), sources.add_feed_forward(layer.feed_forward);
    for (T5DecoderLayer<T>& layer : decoder_layers) {
      texts.add_attention(layer.attention), texts.add_attention(layer.source);
      texts.add_feed_forward(layer.feed_forward);
    }
    texts.add(head);
    texts.close();
    zeros.resize(static_cast<std::size_t>(kernels::round_up(
        std::max({config.vocabulary_size, config.intermediate_size, 3 * inner}), kernels::kPanel)));
  }
  T5Weights(const T5Weights&) = delete;  // slices point at each other
  T5Weights& operator=(const T5Weights&) = delete;

  T5Config config;
  std::int64_t head_size, width, inner;  // padded: D, hidden size, A D
  std::int64_t longest_text;
  kernels::EncoderKernels<T> encoder_kernels;
  kernels::DecoderKernels<T> decoder_kernels;
  at::Tensor words;
  DistanceTable source_bias, text_bias;
  std::vector<float> source_norm, text_norm, zeros;
  SlicedWeight<T> head;
  std::vector<T5EncoderLayer<T>> layers;
  std::vector<T5DecoderLayer<T>> decoder_layers;

 private:
  // Weights side by side whose outputs are heads, each padded to 32 with zeros.
  kernels::PackedMatrix<T> by_heads(const std::vector<at::Tensor>& weights) const {
    Matrix all(std::ssize(weights) * inner, config.hidden_size);
    for (std::size_t w = 0; w < weights.size(); ++w) {
      const Matrix weight = to_matrix(weights[w]);
      for (std::int64_t n = 0; n < weight.rows; ++n)
        std::ranges::copy(weight.row(n),
                          all.row(static_cast<std::int64_t>(w) * inner +
                                  n / config.head_size * head_size + n % config.head_size)
                              .begin());
    }
    return kernels::pack<T>(all.view());
  }
  // p: q, k, v, o, norm
  T5Part<T> attention(const at::Tensor* p, const std::vector<at::Tensor>& in) const {
    const Matrix weight = to_matrix(p[3]);
    Matrix out(config.hidden_size, inner);
    for (std::int64_t n = 0; n < weight.rows; ++n)
      for (std::int64_t k = 0; k < weight.columns; ++k)
        out.row(
            n)[static_cast<std::size_t>(k / config.head_size * head_size + k % config.head_size)] =
            weight.row(n)[static_cast<std::size_t>(k)];
    T5Part<T> part{padded_floats(p[4]), SlicedWeight<T>(by_heads(in)), {}, {}};
    part.out.emplace_back(kernels::pack<T>(out.view()));
    return part;
  }
  // p: wi (wi_0, wi_1), wo
  T5Part<T> feed_forward(const at::Tensor* p, const at::Tensor& norm) const {
    const auto packed = [](const at::Tensor& weight) {
      return SlicedWeight<T>(kernels::pack<T>(to_matrix(weight).view()));
    };
    T5Part<T> part{
        padded_floats(norm), packed(p[0]), config.gated ? packed(p[1]) : SlicedWeight<T>(), {}};
    for (kernels::PackedMatrix<T>& slice :
         pack_slices<T>(to_matrix(p[config.gated ? 2 : 1]).view(), part.in.slices))
      part.out.emplace_back(std::move(slice));
    return part;
  }
};

}  // namespace gpuhpc
