// Attention inside each document of a packed batch. CUDA: LibTorch's kernels for cumulative
// lengths. CPU: one flash kernel call a document, documents dealt to threads, so that nothing is
// padded and a document's result does not depend on its neighbours.
#include <gpuhpc/nn/ops.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "documents.hpp"

namespace gpuhpc {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Part `which` (query, key, value) of qkv (T,3H), one document's rows, as (1,A,L,D).
at::Tensor heads_of(const at::Tensor& qkv, std::int64_t which, std::int64_t start,
                    std::int64_t length, std::int64_t heads) {
  const std::int64_t width = qkv.size(1) / 3, row = qkv.stride(0), head = width / heads;
  return qkv.as_strided({1, heads, length, head}, {row * length, head, row, 1},
                        qkv.storage_offset() + start * row + which * width);
}
at::Tensor rows_of(const at::Tensor& packed, std::int64_t start, std::int64_t length,
                   std::int64_t heads) {
  const std::int64_t width = packed.size(1), head = width / heads;
  return packed.as_strided({1, heads, length, head}, {width * length, head, width, 1},
                           packed.storage_offset() + start * width);
}

void forward_document(const at::Tensor& qkv, const std::vector<std::int64_t>& offsets,
                      std::int64_t b, std::int64_t heads, const at::Tensor& out,
                      at::Tensor& logsumexp) {
  const std::int64_t start = offsets[static_cast<std::size_t>(b)],
                     length = offsets[static_cast<std::size_t>(b) + 1] - start;
  auto [part, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_of(qkv, 0, start, length, heads), heads_of(qkv, 1, start, length, heads),
      heads_of(qkv, 2, start, length, heads));
  rows_of(out, start, length, heads).copy_(part);
  logsumexp = sums;
}

// saved: qkv, output, then the log-sum-exp of each document.
void backward_document(const variable_list& saved, const at::Tensor& gradient,
                       const std::vector<std::int64_t>& offsets, std::int64_t b, std::int64_t heads,
                       const at::Tensor& result) {
  const at::Tensor &qkv = saved[0], &out = saved[1];
  const std::int64_t start = offsets[static_cast<std::size_t>(b)],
                     length = offsets[static_cast<std::size_t>(b) + 1] - start;
  const auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      rows_of(gradient, start, length, heads), heads_of(qkv, 0, start, length, heads),
      heads_of(qkv, 1, start, length, heads), heads_of(qkv, 2, start, length, heads),
      rows_of(out, start, length, heads), saved[static_cast<std::size_t>(b) + 2], 0.0, false);
  heads_of(result, 0, start, length, heads).copy_(query);
  heads_of(result, 1, start, length, heads).copy_(key);
  heads_of(result, 2, start, length, heads).copy_(value);
}

struct CpuAttention : torch::autograd::Function<CpuAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv_in,
                            std::vector<std::int64_t> offsets, std::int64_t heads) {
    const at::Tensor qkv = qkv_in.contiguous();
    const at::Tensor out = at::empty({qkv.size(0), qkv.size(1) / 3}, qkv.options());
    std::vector<at::Tensor> logsumexp(offsets.size() - 1);
    each_document(offsets, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b)
        forward_document(qkv, offsets, b, heads, out, logsumexp[static_cast<std::size_t>(b)]);
    });
    variable_list saved{qkv, out};
    saved.insert(saved.end(), logsumexp.begin(), logsumexp.end());
    context->save_for_backward(saved);
    context->saved_data["offsets"] = offsets;
    context->saved_data["heads"] = heads;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<std::int64_t> offsets = context->saved_data["offsets"].toIntVector();
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor result = at::empty_like(saved[0]);
    each_document(offsets, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b)
        backward_document(saved, gradient, offsets, b, heads, result);
    });
    return {result, {}, {}};
  }
};

// The same from plain operators: the CPU kernel knows no dropout.
at::Tensor plain_attention(const at::Tensor& qkv, const PackedTokens& batch, std::int64_t heads,
                           double dropout, const std::optional<at::Generator>& generator) {
  const std::int64_t head = qkv.size(1) / 3 / heads;
  std::vector<std::int64_t> lengths;
  for (std::size_t b = 0; b + 1 < batch.offsets.size(); ++b)
    lengths.push_back(batch.offsets[b + 1] - batch.offsets[b]);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& document : qkv.split_with_sizes(lengths)) {
    const auto split = document.view({document.size(0), 3, heads, head})
                           .permute({1, 2, 0, 3})
                           .unbind(0);  // 3 x (A,L,D)
    at::Tensor scores = at::matmul(split[0], split[1].transpose(1, 2)).to(at::kFloat) /
                        std::sqrt(static_cast<double>(head));
    const at::Tensor shares = seeded_dropout(at::softmax(scores, -1), dropout, generator);
    parts.push_back(at::matmul(shares.to(qkv.scalar_type()), split[2])
                        .transpose(0, 1)
                        .reshape({document.size(0), heads * head}));
  }
  return at::cat(parts);
}

at::Tensor cuda_attention(const at::Tensor& qkv, const PackedTokens& batch, std::int64_t heads,
                          double dropout) {
  const std::int64_t tokens = qkv.size(0), width = qkv.size(1) / 3;
  const auto split = qkv.view({tokens, 3, heads, width / heads}).unbind(1);  // 3 x (T,A,D)
  if (qkv.scalar_type() == at::kFloat) {
    const bool learns = at::GradMode::is_enabled() && qkv.requires_grad();
    return std::get<0>(at::_efficient_attention_forward(
                           split[0].unsqueeze(0), split[1].unsqueeze(0), split[2].unsqueeze(0),
                           std::nullopt, batch.cumulative, batch.cumulative, batch.max_len,
                           batch.max_len, dropout,
                           /*custom_mask_type=*/0, /*compute_log_sumexp=*/learns))
        .reshape({tokens, width});
  }
  return std::get<0>(at::_flash_attention_forward(split[0], split[1], split[2], batch.cumulative,
                                                  batch.cumulative, batch.max_len, batch.max_len,
                                                  dropout, /*is_causal=*/false,
                                                  /*return_debug_mask=*/false))
      .reshape({tokens, width});
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& qkv, const PackedTokens& batch, std::int64_t heads,
                            double dropout, const std::optional<at::Generator>& generator) {
  if (qkv.is_cuda()) return cuda_attention(qkv, batch, heads, dropout);
  if (dropout > 0) return plain_attention(qkv, batch, heads, dropout, generator);
  // LibTorch's CPU kernel is 3.6 times slower in bf16 than in fp32 on documents of ~80 tokens (it
  // builds oneDNN primitives all the time).
  const at::Tensor out = CpuAttention::apply(
      qkv.to(at::kFloat), std::vector<std::int64_t>(batch.offsets.begin(), batch.offsets.end()),
      heads);
  return out.to(qkv.scalar_type());
}

}  // namespace gpuhpc
