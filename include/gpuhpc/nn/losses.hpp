#pragma once
// Losses as sums over documents (never means: ranks add them up, then divide by the real count).
// Computed in fp32. Legend: B documents, K paths, C classes.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// sum over d of w_d * -sum_k q_dk log softmax(logits_d)_k. logits, targets (B,K); weights (B) or
// undefined (all 1).
at::Tensor soft_target_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                     const at::Tensor& weights = {});

// sum over d of w_d * sum over unmasked c of the binary cross-entropy of sigmoid(logits_dc) with
// targets_dc, positives weighted by `positive_weight`. logits, targets, mask (B,C), mask 1 =
// counts; weights (B) or undefined (all 1).
at::Tensor masked_binary_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                       const at::Tensor& mask, double positive_weight = 1,
                                       const at::Tensor& weights = {});

// Rows `documents` of a host matrix as a tensor (B, columns) on the host.
at::Tensor gather_rows(MatrixView matrix, std::span<const std::int64_t> documents);
at::Tensor gather_rows(const SparseMatrix& matrix, std::span<const std::int64_t> documents);
at::Tensor gather_values(std::span<const float> values, std::span<const std::int64_t> documents);

// Class lists per document: entries [offsets[d], offsets[d+1]).
struct ClassLists {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> classes;
  std::int64_t documents() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::span<const std::int32_t> of(std::int64_t document) const {
    const auto i = static_cast<std::size_t>(document);
    return std::span(classes).subspan(static_cast<std::size_t>(offsets[i]),
                                      static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  }
  void append(std::span<const std::int32_t> document);
};

// What the bilinear head learns from a document: its positives (ancestors included), and the
// classes that do not count (all descendants of positives; a class that is both is positive).
struct MultiLabelTargets {
  ClassLists positives, ignored;
};

struct MultiLabelBatch {
  at::Tensor targets, mask;  // (B,C), on the host
};
MultiLabelBatch gather_labels(const MultiLabelTargets& labels, std::int64_t classes,
                              std::span<const std::int64_t> documents);

// The weight of each generated document in the loss, |real| / |generated| (TELEClass step 5); 0
// when there is none.
double augmented_weight(std::int64_t real_documents, std::int64_t generated_documents);

}  // namespace gpuhpc
