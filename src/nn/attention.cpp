// Attention inside each sequence of a packed batch. CUDA: LibTorch's kernels for cumulative
// lengths. CPU: one flash kernel call a sequence, sequences dealt to threads, so that nothing is
// padded and a sequence's result does not depend on its neighbours; with a bias or dropout,
// cpu_attention.hpp. What all those do not know (other scores, windows): plain operators, sequence
// by sequence, so that neighbours do not matter. On a GPU that (and learned biases):
// padded_attention.hpp.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/nn/ops.hpp>
#include <gpuhpc/nn/padded_attention.hpp>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_attention.hpp"
#include "documents.hpp"

namespace gpuhpc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CpuState : torch::CustomClassHolder {
  std::vector<std::int32_t> queries, keys;  // offsets
  double scale = 1;
  bool causal = false;
};

// Sequence b of rows (T,A,D) as (1,A,L,D).
at::Tensor sequence(const at::Tensor& rows, const std::vector<std::int32_t>& offsets,
                    std::int64_t b) {
  const std::int64_t start = offsets[static_cast<std::size_t>(b)],
                     length = offsets[static_cast<std::size_t>(b) + 1] - start;
  return rows.as_strided({1, rows.size(1), length, rows.size(2)},
                         {length * rows.stride(0), rows.stride(1), rows.stride(0), rows.stride(2)},
                         rows.storage_offset() + start * rows.stride(0));
}

at::Tensor rows_like(const at::Tensor& rows) {
  return at::empty(rows.sizes(), rows.options().requires_grad(false));
}

struct CpuAttention : torch::autograd::Function<CpuAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const c10::intrusive_ptr<CpuState>& state) {
    const CpuState& s = *state;
    const at::Tensor out = rows_like(q);
    std::vector<at::Tensor> logsumexp(s.queries.size() - 1);
    each_document(s.queries, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b) {
        auto [part, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
            sequence(q, s.queries, b), sequence(k, s.keys, b), sequence(v, s.keys, b), 0, s.causal,
            std::nullopt, s.scale);
        sequence(out, s.queries, b).copy_(part);
        logsumexp[static_cast<std::size_t>(b)] = sums;
      }
    });
    variable_list saved{q, k, v, out};
    saved.insert(saved.end(), logsumexp.begin(), logsumexp.end());
    context->save_for_backward(saved);
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["state"].toCapsule();
    const auto& s = static_cast<const CpuState&>(*capsule);
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor of_q = rows_like(saved[0]), of_k = rows_like(saved[1]),
                     of_v = rows_like(saved[2]);
    each_document(s.queries, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b) {
        const auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            sequence(gradient, s.queries, b), sequence(saved[0], s.queries, b),
            sequence(saved[1], s.keys, b), sequence(saved[2], s.keys, b),
            sequence(saved[3], s.queries, b), saved[static_cast<std::size_t>(b) + 4], 0.0, s.causal,
            std::nullopt, s.scale);
        sequence(of_q, s.queries, b).copy_(query);
        sequence(of_k, s.keys, b).copy_(key);
        sequence(of_v, s.keys, b).copy_(value);
      }
    });
    return {of_q, of_k, of_v, {}};
  }
};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                           const AttentionOptions& options) {
  // Divided before they are multiplied: the scores of fp16 end at 65,504.
  const auto queries = product_operand(options.divisor == 1 ? q : q / options.divisor)
                           .split_with_sizes(q_offsets.lengths()),
             keys = product_operand(k).split_with_sizes(k_offsets.lengths()),
             values = product_operand(v).split_with_sizes(k_offsets.lengths());
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b < queries.size(); ++b) {
    const at::Tensor own = queries[b].transpose(0, 1), others = keys[b].transpose(0, 1);
    at::Tensor scores = at::matmul(own, others.transpose(1, 2));
    if (options.scores) scores = options.scores(scores, own, others);
    scores = scores.to(at::kFloat);
    if (options.bias.defined())
      scores = scores + between(options.bias, scores.size(1), scores.size(2));
    if (options.causal)
      scores = scores.masked_fill(
          at::ones({scores.size(1), scores.size(2)}, scores.options().dtype(at::kBool)).triu(1),
          -std::numeric_limits<double>::infinity());
    const at::Tensor shares =
        seeded_dropout(at::softmax(scores, -1), options.dropout, options.generator);
    parts.push_back(at::matmul(shares.to(values[b].scalar_type()), values[b].transpose(0, 1))
                        .transpose(0, 1)
                        .reshape({q_offsets.lengths()[b], -1}));
  }
  return at::cat(parts).to(q.scalar_type());
}

bool has_flash_attention(const at::Tensor& q) {
  return q.is_cuda() && q.scalar_type() != at::kFloat && at::globalContext().userEnabledFlashSDP();
}

// A layer that sees near keys alone: each piece of a sequence's queries against the keys that one
// of them sees, so that scores grow with the length, not with its square.
at::Tensor near_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const PackedOffsets& offsets, const AttentionOptions& options) {
  const std::int64_t window = *options.window, step = std::max<std::int64_t>(64, 2 * window);
  const at::Tensor queries = product_operand(options.divisor == 1 ? q : q / options.divisor),
                   keys = product_operand(k), values = product_operand(v);
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b + 1 < offsets.offsets.size(); ++b)
    for (std::int64_t first = offsets.offsets[b], end = offsets.offsets[b + 1], from = first;
         from < end; from += step) {
      const std::int64_t to = std::min(end, from + step), low = std::max(first, from - window),
                         high = std::min(end, to + window);
      const auto heads = [](const at::Tensor& rows, std::int64_t start, std::int64_t stop) {
        return rows.narrow(0, start, stop - start).transpose(0, 1);
      };
      const at::Tensor scores =
          at::matmul(heads(queries, from, to), heads(keys, low, high).transpose(1, 2))
              .to(at::kFloat);
      const auto place = at::TensorOptions().dtype(at::kLong).device(q.device());
      const at::Tensor distance =
          at::arange(low, high, place) - at::arange(from, to, place).unsqueeze(1);
      const at::Tensor shares = seeded_dropout(
          at::softmax(
              scores.masked_fill(distance.abs() > window, -std::numeric_limits<double>::infinity()),
              -1),
          options.dropout, options.generator);
      parts.push_back(at::matmul(shares.to(values.scalar_type()), heads(values, low, high))
                          .transpose(0, 1)
                          .reshape({to - from, -1}));
    }
  return at::cat(parts).to(q.scalar_type());
}

at::Tensor cuda_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                          const AttentionOptions& options) {
  const double scale = 1 / options.divisor;
  if (!has_flash_attention(q)) {
    const bool learns =
        at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    return std::get<0>(at::_efficient_attention_forward(
        q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), std::nullopt, q_offsets.cumulative,
        k_offsets.cumulative, q_offsets.max_len, k_offsets.max_len, options.dropout,
        /*custom_mask_type=*/options.causal ? 1 : 0, /*compute_log_sumexp=*/learns, scale));
  }
  return std::get<0>(at::_flash_attention_forward(
      q, k, v, q_offsets.cumulative, k_offsets.cumulative, q_offsets.max_len, k_offsets.max_len,
      options.dropout, options.causal, /*return_debug_mask=*/false, scale, options.window,
      options.window));
}

void check_reach(const at::Tensor& bias, std::int64_t longest) {
  if (bias.defined() && (bias.size(1) + 1) / 2 < longest)
    throw internal_error("a bias for distances below {} in sequences of {}", (bias.size(1) + 1) / 2,
                         longest);
}

}  // namespace

at::Tensor distance_bias(const at::Tensor& table, const DistanceBuckets& buckets,
                         std::int64_t reach) {
  std::vector<std::int64_t> rows;
  for (std::int64_t distance = 1 - reach; distance < reach; ++distance)
    rows.push_back(buckets.bucket(distance));
  return table.index_select(0, to_device(at::tensor(rows), table.device())).t().contiguous();
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                     const AttentionOptions& options) {
  if (q_offsets.documents() != k_offsets.documents())
    throw internal_error("attention of {} sequences over {}", q_offsets.documents(),
                         k_offsets.documents());
  if (options.causal && q_offsets.offsets != k_offsets.offsets)
    throw internal_error("causal attention is of sequences over themselves");
  check_reach(options.bias, std::max(q_offsets.max_len, k_offsets.max_len));
  const std::int64_t width = q.size(1) * v.size(2);
  if (options.window && (options.bias.defined() || options.scores || options.causal ||
                         q_offsets.offsets != k_offsets.offsets))
    throw internal_error("attention to near keys is of sequences over themselves, nothing else");
  const std::int64_t longest = std::max(q_offsets.max_len, k_offsets.max_len);
  // Both kernels of a GPU want heads of whole 16 bytes, and flash attention none above 256.
  const bool odd_heads = q.is_cuda() && (q.size(2) % 8 != 0 || q.size(2) > 256);
  // On processors whatever the batch's longest is, so that neighbours do not matter.
  if (options.window && (odd_heads || !has_flash_attention(q)) &&
      (q.is_cpu() || longest > *options.window + 1))
    return near_attention(q, k, v, q_offsets, options);
  if (odd_heads || (q.is_cuda() && (options.scores || options.bias.defined())))
    return padded_attention(q, k, v, q_offsets, k_offsets, options);
  if (options.scores) return plain_attention(q, k, v, q_offsets, k_offsets, options);
  if (q.is_cpu() && (options.bias.defined() || options.dropout > 0))
    return cpu_plain_attention(q, k, v, q_offsets, k_offsets, options);
  if (q.is_cuda())
    return cuda_attention(q, k, v, q_offsets, k_offsets, options).reshape({q.size(0), width});
  // LibTorch's CPU kernel is 3.6 times slower in bf16 than in fp32 on documents of ~80 tokens (it
  // builds oneDNN primitives all the time).
  auto state = c10::make_intrusive<CpuState>();
  state->queries = q_offsets.offsets, state->keys = k_offsets.offsets;
  state->scale = 1 / options.divisor, state->causal = options.causal;
  return CpuAttention::apply(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), state)
      .reshape({q.size(0), width})
      .to(q.scalar_type());
}

at::Tensor self_attention(const at::Tensor& qkv, std::int64_t heads, const PackedOffsets& offsets,
                          const AttentionOptions& options) {
  check_reach(options.bias, offsets.max_len);
  if (!options.scores && (options.bias.defined() || options.dropout > 0) && has_cpu_attention(qkv))
    return cpu_self_attention(qkv, heads, offsets, options);
  const auto parts = qkv.view({qkv.size(0), 3, heads, qkv.size(1) / 3 / heads}).unbind(1);
  return attention(parts[0], parts[1], parts[2], offsets, offsets, options);
}

}  // namespace gpuhpc
