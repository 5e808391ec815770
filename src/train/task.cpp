#include "gpuhpc/train/task.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

LossSum Task::loss(std::span<const std::int64_t> items, DropoutSeed seed) {
  return batch_loss(represent(items, seed).to(at::kFloat), items);
}

at::Tensor Task::represent(std::span<const std::int64_t>, DropoutSeed) {
  throw internal_error("a task has neither loss() nor represent()");
}

LossSum Task::batch_loss(const at::Tensor&, std::span<const std::int64_t>) {
  throw internal_error("a task has neither loss() nor batch_loss()");
}

double Task::figure(const at::Tensor&, std::span<const std::int64_t>, Communicator&) {
  throw internal_error("a task that names a figure does not measure it");
}

DocumentTask::DocumentTask(std::vector<const TokenDataset*> datasets, std::int64_t max_length,
                           TextTemplate form, Loss loss, Targets targets)
    : PackedTask(std::move(loss), std::move(targets)),
      datasets_(std::move(datasets)),
      max_length_(max_length),
      form_(std::move(form)) {
  for (const TokenDataset* dataset : datasets_) first_.push_back(first_.back() + dataset->size());
}

std::pair<const TokenDataset*, std::int64_t> DocumentTask::place_of(std::int64_t document) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), document);
  const std::size_t place = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {datasets_[place], document - first_[place]};
}

std::span<const std::int32_t> DocumentTask::cut(std::span<const std::int32_t> tokens) const {
  return tokens.first(
      std::min(tokens.size(), static_cast<std::size_t>(max_length_ - form_.specials())));
}

std::int64_t DocumentTask::cost(std::int64_t item) const {
  const auto [dataset, place] = place_of(document(item));
  return std::ssize(cut(dataset->tokens(place))) + form_.specials();
}

PackedIds DocumentTask::pack(std::span<const std::int64_t> items) const {
  PackedIds packed;
  packed.clear();
  for (const std::int64_t item : items) {
    const auto [dataset, place] = place_of(document(item));
    packed.add(document(item), cut(dataset->sound_tokens(place)), form_);
  }
  return packed;
}

}  // namespace gpuhpc
