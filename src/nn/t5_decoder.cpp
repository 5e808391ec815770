#include "gpuhpc/nn/t5_decoder.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

at::Tensor attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::optional<at::Tensor>& bias) {
  return at::scaled_dot_product_attention(q, k, v, bias, /*dropout_p=*/0, /*is_causal=*/false,
                                          /*scale=*/1.0);
}

}  // namespace

T5Decoder::T5Decoder(const T5& model, at::ScalarType compute)
    : config_(model.config()),
      compute_(compute),
      words_(model.words().detach()),
      bias_table_(model.bias_table(true).detach()),
      norm_(model.final_norm(true).detach()),
      head_(model.head().detach().to(compute)) {
  for (std::int64_t i = 0; i < config_.decoder_layers; ++i) {
    std::vector<at::Tensor> p;
    for (const at::Tensor& weight : model.layer(true, i)) p.push_back(weight.detach());
    const auto cast = [&](const at::Tensor& weight) { return weight.to(compute); };
    Layer layer{cast(at::cat({p[0], p[1], p[2]})),
                cast(p[3]),
                p[4],
                cast(p[5]),
                cast(at::cat({p[6], p[7]})),
                cast(p[8]),
                p[9],
                {},
                p.back()};
    for (std::size_t part = 10; part + 1 < p.size(); ++part)
      layer.feed_forward.push_back(cast(p[part]));
    layers_.push_back(std::move(layer));
  }
}

// x (.,in) W^T in the compute type, as fp32.
at::Tensor T5Decoder::product(const at::Tensor& x, const at::Tensor& weight) const {
  return at::mm(x.to(compute_), weight.t()).to(at::kFloat);
}

T5Decoder::Rows T5Decoder::begin(const at::Tensor& encoded, const PackedOffsets& source,
                                 std::int64_t capacity) const {
  const at::NoGradGuard no_grad;
  Rows rows;
  for (std::size_t b = 0; b + 1 < source.offsets.size(); ++b)
    rows.sources.push_back({source.offsets[b], source.offsets[b + 1]});
  for (const Layer& layer : layers_) {
    const auto kv = product(encoded, layer.key_value)
                        .view({encoded.size(0), 2, config_.heads, config_.head_size})
                        .unbind(1);
    rows.source_keys.push_back(kv[0]), rows.source_values.push_back(kv[1]);
    for (auto* cache : {&rows.keys, &rows.values})
      cache->push_back(at::empty(
          {std::ssize(rows.sources), config_.heads, capacity, config_.head_size}, kv[0].options()));
  }
  return rows;
}

// q (R,A,D) -> (R,A,D). The rows of a document share its keys and values.
at::Tensor T5Decoder::attend_to_source(const Rows& rows, std::size_t layer,
                                       const at::Tensor& q) const {
  const at::Tensor out = at::empty_like(q);
  const std::int64_t each = rows.per_document;
  const auto sequence = [](const at::Tensor& all, std::int64_t begin, std::int64_t count) {
    return all.narrow(0, begin, count).transpose(0, 1).unsqueeze(0);  // (1,A,count,D)
  };
  for (std::int64_t d = 0; d < std::ssize(rows.sources); ++d) {
    const Range& source = rows.sources[static_cast<std::size_t>(d)];
    sequence(out, d * each, each)
        .copy_(attended(sequence(q, d * each, each),
                        sequence(rows.source_keys[layer], source.first, source.size()),
                        sequence(rows.source_values[layer], source.first, source.size()), {}));
  }
  return out;
}

at::Tensor T5Decoder::step(Rows& rows, std::span<const std::int32_t> tokens) const {
  const at::NoGradGuard no_grad;
  const std::int64_t count = std::ssize(tokens), heads = config_.heads, size = config_.head_size,
                     place = rows.length++, capacity = rows.keys.front().size(2);
  if (rows.length > capacity)
    throw internal_error("a decoder of {} tokens is asked for more", capacity);
  const at::Tensor ids = to_device(
      at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())), words_.device());
  at::Tensor hidden = words_.index_select(0, ids);
  // (1,A,1,length): of the keys at the distances -place .. 0
  const at::Tensor bias = distance_bias(bias_table_, config_.buckets(true), rows.length)
                              .narrow(1, 0, rows.length)
                              .reshape({1, heads, 1, rows.length});
  const auto normed = [&](const at::Tensor& norm) {
    return rms_norm(hidden, norm, config_.epsilon);
  };
  ForwardOptions forward;
  forward.compute = compute_;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const auto qkv = product(normed(layer.norm), layer.qkv).view({count, 3, heads, size}).unbind(1);
    rows.keys[i].select(2, place).copy_(qkv[1]);
    rows.values[i].select(2, place).copy_(qkv[2]);
    const at::Tensor context = attended(qkv[0].unsqueeze(2), rows.keys[i].narrow(2, 0, rows.length),
                                        rows.values[i].narrow(2, 0, rows.length), bias);
    hidden =
        t5_sum(hidden, product(context.reshape({count, heads * size}), layer.output), compute_);
    const at::Tensor q = product(normed(layer.source_norm), layer.query).view({count, heads, size});
    hidden = t5_sum(
        hidden,
        product(attend_to_source(rows, i, q).view({count, heads * size}), layer.source_output),
        compute_);
    hidden = t5_sum(hidden,
                    t5_feed_forward(config_, layer.feed_forward.data(),
                                    normed(layer.feed_forward_norm), forward),
                    compute_);
  }
  hidden = normed(norm_);
  if (config_.scaled_head) hidden = hidden / std::sqrt(static_cast<double>(config_.hidden_size));
  return product(hidden, head_);
}

void T5Decoder::select(Rows& rows, std::span<const std::int64_t> from,
                       std::span<const std::int64_t> documents) const {
  const at::NoGradGuard no_grad;
  const at::Tensor places = to_device(at::tensor(from), words_.device());
  const std::int64_t capacity = rows.keys.front().size(2);
  for (auto* caches : {&rows.keys, &rows.values})
    for (at::Tensor& cache : *caches) {
      at::Tensor chosen =
          at::empty({std::ssize(from), cache.size(1), capacity, cache.size(3)}, cache.options());
      chosen.narrow(2, 0, rows.length)
          .copy_(cache.narrow(2, 0, rows.length).index_select(0, places));
      cache = chosen;
    }
  std::vector<Range> sources;
  for (const std::int64_t document : documents)
    sources.push_back(rows.sources[static_cast<std::size_t>(document)]);
  rows.sources = std::move(sources);
  rows.per_document = documents.empty() ? 1 : std::ssize(from) / std::ssize(documents);
}

}  // namespace gpuhpc
