#include "gpuhpc/pipelines/embedding/task.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {

EmbeddingTask::EmbeddingTask(std::vector<std::vector<TokenDataset>> files,
                             std::vector<float> values, PairLossOptions options,
                             std::int64_t max_length, TextTemplate form, Embed embed,
                             const PairClassifier* head)
    : files_(std::move(files)),
      values_(std::move(values)),
      options_(std::move(options)),
      loss_(embedding_loss(options_.loss)),
      dimensions_(options_.dimensions()),
      max_length_(max_length),
      form_(std::move(form)),
      embed_(std::move(embed)),
      columns_(options_.loss == "simcse" ? 2 : files_.front().size()),
      values_of_row_(loss_.values(columns_)),
      head_(head) {
  for (const auto& file : files_)
    first_.push_back(first_.back() + (file.empty() ? 0 : file.front().size()));
}

std::span<const std::int32_t> EmbeddingTask::tokens(std::int64_t item, std::size_t column) const {
  const std::size_t file = file_of(item);
  const std::vector<TokenDataset>& columns = files_[file];
  const auto all = columns[std::min(column, columns.size() - 1)].tokens(item - first_[file]);
  return all.first(std::min(all.size(), static_cast<std::size_t>(max_length_ - form_.specials())));
}

std::size_t EmbeddingTask::file_of(std::int64_t item) const {
  std::size_t file = 0;
  while (item >= first_[file + 1]) ++file;
  return file;
}

std::vector<float> EmbeddingTask::values(std::span<const std::int64_t> items) const {
  std::vector<float> found;
  for (const std::int64_t item : items) {
    const auto first = values_.begin() + item * static_cast<std::int64_t>(values_of_row_);
    found.insert(found.end(), first, first + static_cast<std::int64_t>(values_of_row_));
  }
  return found;
}

std::int64_t EmbeddingTask::cost(std::int64_t item) const {
  std::int64_t sum = 0;
  for (std::size_t c = 0; c < columns_; ++c) sum += std::ssize(tokens(item, c)) + form_.specials();
  return sum;
}

std::int64_t EmbeddingTask::key(std::int64_t item) const {
  return static_cast<std::int64_t>(xxh3(std::as_bytes(tokens(item, 0))));
}

LossScope EmbeddingTask::scope() const {
  return loss_.over == EmbeddingLoss::Over::row ? LossScope::item : LossScope::global_batch;
}

void EmbeddingTask::load(std::span<const std::int64_t> items) {
  packed_.clear();
  for (std::size_t c = 0; c < columns_; ++c)
    for (const std::int64_t item : items) packed_.add(item, tokens(item, c), form_);
}

at::Tensor EmbeddingTask::represent(std::span<const std::int64_t> items, DropoutSeed seed) {
  const auto columns = static_cast<std::int64_t>(columns_);
  const at::Tensor vectors = embed_(packed_, seed).to(at::kFloat);  // (columns x items, W)
  return vectors.reshape({columns, std::ssize(items), vectors.size(1)})
      .transpose(0, 1)
      .reshape({std::ssize(items), columns * vectors.size(1)});
}

LossRows EmbeddingTask::loss_rows(const at::Tensor& rows,
                                  std::span<const std::int64_t> items) const {
  at::Tensor learnt;
  if (values_of_row_ > 0) {
    learnt = at::tensor(values(items)).to(rows.device());
    if (loss_.learns == Learns::teachers) learnt = learnt.reshape({std::ssize(items), -1});
  }
  return {rows.chunk(static_cast<std::int64_t>(columns_), 1), learnt, options_, head_};
}

LossSum EmbeddingTask::batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) {
  const LossRows whole = loss_rows(rows, items);
  at::Tensor sum = loss_.value(whole);
  for (const std::int64_t dimensions : dimensions_)
    if (dimensions < whole.columns[0].size(1)) {
      LossRows cut = whole;
      cut.columns = first_dimensions(whole.columns, dimensions);
      sum = sum + loss_.value(cut);
    }
  const bool one_value = loss_.over == EmbeddingLoss::Over::batch_value;
  return {sum, one_value ? 1 : static_cast<double>(items.size())};
}

double EmbeddingTask::figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                             Communicator& comm) {
  if (loss_.learns == Learns::classes) {
    const c10::NoGradGuard no_graph;
    const LossRows all = loss_rows(rows.to(head_->parameters().front().value.device()), items);
    const at::Tensor right = head_->logits(all.columns).argmax(1).eq(all.values);
    return right.to(at::kDouble).mean().item<double>();
  }
  if (!evaluator_) {
    const std::size_t file = file_of(items.front());
    std::vector<std::int64_t> places;
    for (const std::int64_t item : items) places.push_back(item - first_[file]);
    const std::vector<float> learnt = values(items);
    evaluator_.emplace(files_[file], places, learnt,
                       measure_of(files_[file].size(), loss_.learns, learnt));
  }
  std::vector<Matrix> vectors;
  const Columns columns = rows.chunk(static_cast<std::int64_t>(columns_), 1);
  for (const DistinctTexts& texts : evaluator_->texts())
    vectors.push_back(to_matrix(columns[vectors.size()].index_select(0, at::tensor(texts.places))));
  for (const auto& [figure, value] : evaluator_->figures(vectors, comm))
    if (figure == options_.metric) return value;
  throw internal_error("these rows have no {}", options_.metric);
}

}  // namespace gpuhpc
