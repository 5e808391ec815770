#include "gpuhpc/pipelines/embedding/task.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/nn/losses.hpp"

namespace gpuhpc {

EmbeddingTask::EmbeddingTask(std::vector<std::vector<TokenDataset>> files,
                             std::vector<float> scores, PairLossOptions options,
                             std::int64_t max_length, TextTemplate form, Embed embed)
    : files_(std::move(files)),
      scores_(std::move(scores)),
      options_(std::move(options)),
      loss_(embedding_loss(options_.loss)),
      dimensions_(options_.dimensions()),
      max_length_(max_length),
      form_(std::move(form)),
      embed_(std::move(embed)),
      columns_(options_.loss == "simcse" ? 2 : files_.front().size()) {
  for (const auto& file : files_)
    first_.push_back(first_.back() + (file.empty() ? 0 : file.front().size()));
}

std::span<const std::int32_t> EmbeddingTask::tokens(std::int64_t item, std::size_t column) const {
  std::size_t file = 0;
  while (item >= first_[file + 1]) ++file;
  const std::vector<TokenDataset>& columns = files_[file];
  const auto all = columns[std::min(column, columns.size() - 1)].tokens(item - first_[file]);
  return all.first(std::min(all.size(), static_cast<std::size_t>(max_length_ - form_.specials())));
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

LossSum EmbeddingTask::batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) {
  const Columns columns = rows.chunk(static_cast<std::int64_t>(columns_), 1);
  const at::Tensor scores =
      scores_.empty() ? at::Tensor() : gather_values(scores_, items, rows.device());
  at::Tensor sum = loss_.value(columns, scores, options_);
  for (const std::int64_t dimensions : dimensions_)
    if (dimensions < columns[0].size(1))
      sum = sum + loss_.value(first_dimensions(columns, dimensions), scores, options_);
  const bool one_value = loss_.over == EmbeddingLoss::Over::batch_value;
  return {sum, one_value ? 1 : static_cast<double>(items.size())};
}

}  // namespace gpuhpc
