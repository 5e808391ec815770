#include "gpuhpc/pipelines/embedding/task.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {

std::vector<std::string> LearntSets::settings() const {
  std::vector<std::string> lines;
  for (const PairDataset& set : sets) {
    const std::vector<std::string> loss = config::settings_of(set.loss);
    if (set.name.empty()) return loss;
    lines.push_back(fmt::format("dataset.{}.weight = {}", set.name, set.weight));
    for (const std::string& line : loss)
      lines.push_back(fmt::format("dataset.{}{}", set.name, line.substr(line.find('.'))));
  }
  lines.push_back(fmt::format("embedding.mixing = {}",
                              mixing == Mixing::round_robin ? "round-robin" : "proportional"));
  return lines;
}

EmbeddingTask::EmbeddingTask(std::vector<LearntRows> sets, std::int64_t max_length,
                             TextTemplate form, Embed embed, const PairClassifier* head)
    : max_length_(max_length), form_(std::move(form)), embed_(std::move(embed)), head_(head) {
  std::int64_t items = 0;
  for (LearntRows& rows : sets) {
    const EmbeddingLoss& loss = embedding_loss(rows.options.loss);
    const std::size_t columns = rows.options.loss == "simcse" ? 2 : rows.files.front().size();
    std::vector<std::int64_t> first{items};
    for (const auto& file : rows.files)
      first.push_back(items += file.empty() ? 0 : file.front().size());
    sets_.push_back({std::move(rows), loss, columns, std::move(first)});
  }
}

const EmbeddingTask::Set& EmbeddingTask::set_of(std::int64_t item) const {
  return *std::ranges::upper_bound(sets_, item, {},
                                   [](const Set& set) { return set.first.back(); });
}

std::size_t EmbeddingTask::Set::file_of(std::int64_t item) const {
  std::size_t file = 0;
  while (item >= first[file + 1]) ++file;
  return file;
}

std::vector<float> EmbeddingTask::Set::values(std::span<const std::int64_t> items) const {
  const auto count = static_cast<std::int64_t>(loss.values(columns));  // of a row
  std::vector<float> found;
  for (const std::int64_t item : items) {
    const auto of_row = rows.values.begin() + (item - first.front()) * count;
    found.insert(found.end(), of_row, of_row + count);
  }
  return found;
}

std::span<const std::int32_t> EmbeddingTask::tokens(const Set& set, std::int64_t item,
                                                    std::size_t column) const {
  const std::size_t file = set.file_of(item);
  const std::vector<TokenDataset>& columns = set.rows.files[file];
  const auto all =
      columns[std::min(column, columns.size() - 1)].sound_tokens(item - set.first[file]);
  return all.first(std::min(all.size(), static_cast<std::size_t>(max_length_ - form_.specials())));
}

std::int64_t EmbeddingTask::cost(std::int64_t item) const {
  const Set& set = set_of(item);
  const std::size_t file = set.file_of(item);
  const std::vector<TokenDataset>& columns = set.rows.files[file];
  std::int64_t sum = 0;
  for (std::size_t c = 0; c < set.columns; ++c)  // lengths alone: the tokens stay on the disk
    sum += std::min(
        columns[std::min(c, columns.size() - 1)].length(item - set.first[file]) + form_.specials(),
        max_length_);
  return sum;
}

// By what the model sees of them and, where prompts make one text two of another look, without
// them.
std::vector<std::int64_t> EmbeddingTask::keys(std::int64_t item) const {
  const Set& set = set_of(item);
  if (set.loss.over != EmbeddingLoss::Over::batch) return {item};
  const std::size_t file = set.file_of(item);
  const std::vector<TokenDataset>& columns = set.rows.files[file];
  std::vector<std::int64_t> found;
  const auto add = [&](std::span<const std::byte> bytes) {
    found.push_back(static_cast<std::int64_t>(xxh3(bytes)));
  };
  for (std::size_t c = 0; c < columns.size(); ++c) {
    add(std::as_bytes(tokens(set, item, c)));
    if (set.rows.prompts.empty()) continue;
    const std::string_view text = columns[c].text(item - set.first[file]);
    add(std::as_bytes(std::span(text.substr(set.rows.prompts[c].size()))));
  }
  return found;
}

LossScope EmbeddingTask::scope(std::span<const std::int64_t> batch) const {
  return set_of(batch.front()).loss.over == EmbeddingLoss::Over::row ? LossScope::item
                                                                     : LossScope::global_batch;
}

std::any EmbeddingTask::load(std::span<const std::int64_t> items,
                             std::optional<std::int64_t>) const {
  const Set& set = set_of(items.front());
  PackedIds packed;
  for (std::size_t c = 0; c < set.columns; ++c)
    for (const std::int64_t item : items) packed.add(item, tokens(set, item, c), form_);
  return packed;
}

at::Tensor EmbeddingTask::represent(std::span<const std::int64_t> items, DropoutSeed seed) {
  const auto columns = static_cast<std::int64_t>(set_of(items.front()).columns);
  const at::Tensor vectors = embed_(*packed_, seed).to(at::kFloat);  // (columns x items, W)
  return vectors.reshape({columns, std::ssize(items), vectors.size(1)})
      .transpose(0, 1)
      .reshape({std::ssize(items), columns * vectors.size(1)});
}

LossRows EmbeddingTask::loss_rows(const Set& set, const at::Tensor& rows,
                                  std::span<const std::int64_t> items) const {
  at::Tensor learnt;
  if (set.loss.learns != Learns::nothing) {
    learnt = to_device(at::tensor(set.values(items)), rows.device());
    if (set.loss.learns == Learns::teachers) learnt = learnt.reshape({std::ssize(items), -1});
  }
  return {rows.chunk(static_cast<std::int64_t>(set.columns), 1), learnt, set.rows.options, head_};
}

LossSum EmbeddingTask::batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) {
  const Set& set = set_of(items.front());
  const LossRows whole = loss_rows(set, rows, items);
  const std::int64_t width = whole.columns[0].size(1);
  std::vector<std::int64_t> widths = set.rows.options.dimensions();
  at::Tensor sum;
  if (widths.empty()) {
    sum = set.loss.value(whole);
  } else {  // the full width first, whether it is named or not
    std::erase(widths, width);
    widths.insert(widths.begin(), width);
    for (const std::int64_t dimensions : widths) {
      LossRows cut = whole;
      cut.columns = first_dimensions(whole.columns, dimensions);
      const at::Tensor of_width = set.loss.value(cut);
      sum = sum.defined() ? sum + of_width : of_width;
    }
  }
  const bool one_value = set.loss.over == EmbeddingLoss::Over::batch_value;
  return {sum, one_value ? 1 : static_cast<double>(items.size())};
}

double EmbeddingTask::figure(const at::Tensor& rows, std::span<const std::int64_t> items,
                             Communicator& comm) {
  const Set& set = set_of(items.front());
  if (set.loss.learns == Learns::classes) {
    const c10::NoGradGuard no_graph;
    const LossRows all = loss_rows(set, rows.to(head_->parameters().front().value.device()), items);
    const at::Tensor right = head_->logits(all.columns).argmax(1).eq(all.values);
    return right.to(at::kDouble).mean().item<double>();
  }
  if (!evaluator_) {
    const std::size_t file = set.file_of(items.front());
    std::vector<std::int64_t> places;
    for (const std::int64_t item : items) places.push_back(item - set.first[file]);
    const std::vector<float> learnt = set.values(items);
    const std::vector<TokenDataset>& columns = set.rows.files[file];
    // What is measured follows from all rows of the file, as it was when the metric was checked.
    const auto each = static_cast<std::size_t>(set.loss.values(set.columns)),
               begin = static_cast<std::size_t>(set.first[file] - set.first.front()) * each,
               end = static_cast<std::size_t>(set.first[file + 1] - set.first.front()) * each;
    evaluator_.emplace(columns, places, learnt,
                       measure_of(columns.size(), set.loss.learns,
                                  std::span(set.rows.values).subspan(begin, end - begin),
                                  set.rows.options.evaluator),
                       set.rows.options.transitive);
  }
  std::vector<Matrix> vectors;
  const Columns columns = rows.chunk(static_cast<std::int64_t>(set.columns), 1);
  for (const DistinctTexts& texts : evaluator_->texts())
    vectors.push_back(to_matrix(columns[vectors.size()].index_select(0, at::tensor(texts.places))));
  for (const auto& [figure, value] : evaluator_->figures(vectors, comm))
    if (figure == figure_name()) return value;
  throw internal_error("these rows have no {}", figure_name());
}

}  // namespace gpuhpc
