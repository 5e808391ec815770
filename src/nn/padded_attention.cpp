#include "gpuhpc/nn/padded_attention.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cpu_attention.hpp"

namespace gpuhpc {
namespace {

constexpr double masked = -std::numeric_limits<double>::infinity();

std::int64_t first(const std::vector<std::int32_t>& offsets, std::int64_t b) {
  return offsets[static_cast<std::size_t>(b)];
}
std::int64_t length(const std::vector<std::int32_t>& offsets, std::int64_t b) {
  return first(offsets, b + 1) - first(offsets, b);
}

// Rows (T,A,D) with every sequence padded with zeros to its group's longest, group behind group.
class PaddedRows {
 public:
  PaddedRows(const std::vector<PaddedGroup>& groups, const std::vector<std::int32_t>& offsets,
             std::int64_t PaddedGroup::*longest, at::Device device) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(offsets.back()));
    for (const PaddedGroup& group : groups) {
      firsts_.push_back(rows_);
      for (const std::int64_t b : group.sequences) {
        const auto own = places.begin() + first(offsets, b);
        std::iota(own, own + length(offsets, b), rows_);
        rows_ += group.*longest;
      }
    }
    places_ = to_device(at::tensor(places), device);
  }

  // The gradient of rows that are copied to places of their own takes no sums.
  at::Tensor padded(const at::Tensor& rows) const {
    return at::zeros({rows_, rows.size(1), rows.size(2)}, rows.options())
        .index_copy(0, places_, rows);
  }
  // The g-th group of what padded() returned, as (B,A,longest,D).
  at::Tensor group(const at::Tensor& all, std::size_t g, const PaddedGroup& group,
                   std::int64_t longest) const {
    const std::int64_t sequences = std::ssize(group.sequences);
    return all.narrow(0, firsts_[g], sequences * longest)
        .view({sequences, longest, all.size(1), all.size(2)})
        .transpose(1, 2);
  }
  // (all padded rows, W) -> (T,W)
  at::Tensor packed(const at::Tensor& all) const { return all.index_select(0, places_); }

 private:
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> firsts_;  // of each group
  at::Tensor places_;                 // (T)
};

// (B,1,1,keys): true behind the end of a sequence. Undefined: all are as long as the longest.
at::Tensor behind_the_end(const std::vector<std::int32_t>& offsets, const PaddedGroup& group,
                          at::Device device) {
  std::vector<std::int64_t> lengths;
  for (const std::int64_t b : group.sequences) lengths.push_back(length(offsets, b));
  if (std::ranges::min(lengths) == group.keys) return {};
  return at::arange(group.keys, at::TensorOptions(device).dtype(at::kLong)) >=
         to_device(at::tensor(lengths), device).view({-1, 1, 1, 1});
}

}  // namespace

std::vector<PaddedGroup> groups_of_like_length(const std::vector<std::int32_t>& q_offsets,
                                               const std::vector<std::int32_t>& k_offsets) {
  std::vector<std::int64_t> order(k_offsets.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](std::int64_t b) {
    return std::pair(length(k_offsets, b), length(q_offsets, b));
  });
  std::vector<PaddedGroup> groups;
  std::int64_t own = 0;  // scores of the last group's sequences
  for (const std::int64_t b : order) {
    const std::int64_t queries = length(q_offsets, b), keys = length(k_offsets, b);
    if (!groups.empty()) {
      PaddedGroup& group = groups.back();
      const std::int64_t longest = std::max(group.queries, queries),
                         with_padding = (std::ssize(group.sequences) + 1) * longest * group.keys;
      if (with_padding <= most_padded_scores && 2 * with_padding <= 3 * (own + queries * keys)) {
        group.sequences.push_back(b), group.queries = longest, own += queries * keys;
        continue;
      }
    }
    groups.push_back({{b}, queries, keys});
    own = queries * keys;
  }
  return groups;
}

at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                            const AttentionOptions& options) {
  // Divided before they are multiplied: the scores of fp16 end at 65,504.
  const at::Tensor queries = product_operand(options.divisor == 1 ? q : q / options.divisor),
                   keys = product_operand(k), values = product_operand(v);
  const std::vector<PaddedGroup> groups =
      groups_of_like_length(q_offsets.offsets, k_offsets.offsets);
  const PaddedRows of_queries(groups, q_offsets.offsets, &PaddedGroup::queries, q.device()),
      of_keys(groups, k_offsets.offsets, &PaddedGroup::keys, q.device());
  const at::Tensor all_queries = of_queries.padded(queries), all_keys = of_keys.padded(keys),
                   all_values = of_keys.padded(values);
  std::vector<at::Tensor> parts;  // (B queries, A D) of each group
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PaddedGroup& group = groups[g];
    const at::Tensor own = of_queries.group(all_queries, g, group, group.queries),
                     others = of_keys.group(all_keys, g, group, group.keys);
    at::Tensor scores = at::matmul(own, others.transpose(2, 3));  // (B,A,queries,keys)
    if (options.scores) scores = options.scores(scores, own, others);
    scores = scores.to(at::kFloat);
    if (options.bias.defined()) scores = scores + between(options.bias, group.queries, group.keys);
    if (options.causal)
      scores = scores.masked_fill(
          at::ones({group.queries, group.keys}, scores.options().dtype(at::kBool)).triu(1), masked);
    if (const at::Tensor behind = behind_the_end(k_offsets.offsets, group, q.device());
        behind.defined())
      scores = scores.masked_fill(behind, masked);
    const at::Tensor shares =
        seeded_dropout(at::softmax(scores, -1), options.dropout, options.generator);
    parts.push_back(
        at::matmul(shares.to(values.scalar_type()), of_keys.group(all_values, g, group, group.keys))
            .transpose(1, 2)
            .reshape({-1, q.size(1) * v.size(2)}));
  }
  return of_queries.packed(at::cat(parts)).to(q.scalar_type());
}

}  // namespace gpuhpc
