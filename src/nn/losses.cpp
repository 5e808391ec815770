#include "gpuhpc/nn/losses.hpp"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace gpuhpc {
namespace {

const auto host_floats = at::TensorOptions().dtype(at::kFloat);

std::size_t at_index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

at::Tensor soft_target_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                     const at::Tensor& weights) {
  at::Tensor terms = at::log_softmax(logits, 1, at::kFloat).mul(targets);
  if (weights.defined()) terms = terms.mul(weights.unsqueeze(1));
  return terms.sum().neg();
}

at::Tensor masked_binary_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                       const at::Tensor& mask, double positive_weight,
                                       const at::Tensor& weights) {
  const at::Tensor weight = weights.defined() ? mask.mul(weights.unsqueeze(1)) : mask;
  const at::Tensor positive = at::full({1}, positive_weight, logits.options().dtype(at::kFloat));
  return at::binary_cross_entropy_with_logits(logits.to(at::kFloat), targets, weight, positive,
                                              at::Reduction::Sum);
}

at::Tensor gather_rows(MatrixView matrix, std::span<const std::int64_t> documents) {
  at::Tensor rows = at::empty({std::ssize(documents), matrix.columns}, host_floats);
  float* to = rows.mutable_data_ptr<float>();
  for (const std::int64_t document : documents)
    to = std::ranges::copy(matrix.row(document), to).out;
  return rows;
}

at::Tensor gather_rows(const SparseMatrix& matrix, std::span<const std::int64_t> documents) {
  at::Tensor rows = at::zeros({std::ssize(documents), matrix.columns_count}, host_floats);
  float* to = rows.mutable_data_ptr<float>();
  for (const std::int64_t document : documents) {
    for (std::int64_t i = matrix.offsets[at_index(document)];
         i < matrix.offsets[at_index(document + 1)]; ++i)
      to[matrix.columns[at_index(i)]] = matrix.values[at_index(i)];
    to += matrix.columns_count;
  }
  return rows;
}

at::Tensor gather_values(std::span<const float> values, std::span<const std::int64_t> documents) {
  at::Tensor result = at::empty({std::ssize(documents)}, host_floats);
  float* to = result.mutable_data_ptr<float>();
  for (const std::int64_t document : documents) *to++ = values[at_index(document)];
  return result;
}

void ClassLists::append(std::span<const std::int32_t> document) {
  classes.insert(classes.end(), document.begin(), document.end());
  offsets.push_back(std::ssize(classes));
}

MultiLabelBatch gather_labels(const MultiLabelTargets& labels, std::int64_t classes,
                              std::span<const std::int64_t> documents) {
  at::Tensor targets = at::zeros({std::ssize(documents), classes}, host_floats),
             mask = at::ones_like(targets);
  float* target = targets.mutable_data_ptr<float>();
  float* counts = mask.mutable_data_ptr<float>();
  const auto mark = [classes](const ClassLists& lists, std::int64_t document, float* row,
                              float value) {
    for (std::int64_t i = lists.offsets[at_index(document)];
         i < lists.offsets[at_index(document + 1)]; ++i)
      row[lists.classes[at_index(i)]] = value;
    return row + classes;
  };
  for (const std::int64_t document : documents) {
    mark(labels.ignored, document, counts, 0);
    counts = mark(labels.positives, document, counts, 1);
    target = mark(labels.positives, document, target, 1);
  }
  return {targets, mask};
}

double augmented_weight(std::int64_t real_documents, std::int64_t generated_documents) {
  return generated_documents > 0
             ? static_cast<double>(real_documents) / static_cast<double>(generated_documents)
             : 0;
}

}  // namespace gpuhpc
