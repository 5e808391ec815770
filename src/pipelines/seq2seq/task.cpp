#include "gpuhpc/pipelines/seq2seq/task.hpp"

#include <algorithm>

namespace gpuhpc {

Seq2SeqTask::Seq2SeqTask(std::vector<std::vector<TokenDataset>> files, std::int64_t source_length,
                         std::int64_t target_length, TextTemplate form, Loss loss)
    : files_(std::move(files)),
      lengths_{source_length, target_length},
      form_(std::move(form)),
      loss_(std::move(loss)) {
  for (const auto& file : files_)
    first_.push_back(first_.back() + (file.empty() ? 0 : file.front().size()));
}

const TokenDataset& Seq2SeqTask::column_of(std::int64_t item, std::size_t column,
                                           std::int64_t& row) const {
  std::size_t file = 0;
  while (item >= first_[file + 1]) ++file;
  row = item - first_[file];
  return files_[file][column];
}

std::span<const std::int32_t> Seq2SeqTask::tokens(std::int64_t item, std::size_t column) const {
  std::int64_t row = 0;
  const auto all = column_of(item, column, row).sound_tokens(row);
  return all.first(
      std::min(all.size(), static_cast<std::size_t>(lengths_[column] - form_.specials())));
}

std::string_view Seq2SeqTask::text(std::int64_t item, std::size_t column) const {
  std::int64_t row = 0;
  const TokenDataset& texts = column_of(item, column, row);
  return texts.text(row);
}

std::int64_t Seq2SeqTask::cost(std::int64_t item) const {
  std::int64_t row = 0, sum = 2 * form_.specials();
  for (const std::size_t column : {0U, 1U})  // lengths alone: the tokens stay on the disk
    sum += std::min(column_of(item, column, row).length(row), lengths_[column] - form_.specials());
  return sum;
}

std::any Seq2SeqTask::load(std::span<const std::int64_t> items, std::optional<std::int64_t>) const {
  Pairs pairs;
  for (const std::int64_t item : items) {
    pairs.sources.add(item, tokens(item, 0), form_);
    pairs.targets.add(item, tokens(item, 1), form_);
  }
  return pairs;
}

LossSum Seq2SeqTask::loss(std::span<const std::int64_t>, DropoutSeed seed) {
  const auto& [sources, targets] = *pairs_;
  return {loss_(sources, targets, seed), static_cast<double>(targets.token_ids.size())};
}

}  // namespace gpuhpc
