#include "gpuhpc/pipelines/embedding/losses.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

at::Tensor mnrl(const LossRows& r) { return in_batch_negatives(r.columns, r.options.scale); }
at::Tensor symmetric(const LossRows& r) {
  return symmetric_in_batch_negatives(r.columns, r.options.scale);
}
at::Tensor triplet(const LossRows& r) {
  return triplet_loss(r.columns, parse_distance(r.options.distance), r.options.margin);
}
at::Tensor cosine(const LossRows& r) { return cosine_loss(r.columns, r.values); }
at::Tensor cosent(const LossRows& r) {
  return ranking_loss(row_cosines(r.columns[0], r.columns[1]), r.values, r.options.scale);
}
at::Tensor angle(const LossRows& r) {
  return ranking_loss(row_angles(r.columns[0], r.columns[1]), r.values, r.options.scale);
}
at::Tensor margin_mse(const LossRows& r) { return margin_mse_loss(r.columns, r.values); }
at::Tensor distill(const LossRows& r) {
  return distillation_loss(r.columns, r.values, r.options.temperature);
}
at::Tensor softmax(const LossRows& r) { return softmax_loss(r.head->logits(r.columns), r.values); }

}  // namespace

std::span<const EmbeddingLoss> embedding_losses() {
  using Over = EmbeddingLoss::Over;
  constexpr ScoreRange any;
  static const EmbeddingLoss table[] = {
      {"mnrl", 2, 1000, Learns::nothing, any, Over::batch, mnrl, "scale"},
      {"mnrl-symmetric", 2, 2, Learns::nothing, any, Over::batch, symmetric, "scale"},
      {"simcse", 1, 1, Learns::nothing, any, Over::batch, mnrl, "scale"},
      {"triplet", 3, 3, Learns::nothing, any, Over::row, triplet, "margin distance"},
      {"cosine", 2, 2, Learns::similarity, {-1, 1}, Over::row, cosine, ""},
      {"cosent", 2, 2, Learns::similarity, any, Over::batch_value, cosent, "scale"},
      {"angle", 2, 2, Learns::similarity, any, Over::batch_value, angle, "scale"},
      {"softmax", 2, 2, Learns::classes, any, Over::row, softmax, ""},
      {"margin-mse", 3, 3, Learns::teacher, any, Over::row, margin_mse, ""},
      {"distill", 3, 1000, Learns::teachers, any, Over::row, distill, "temperature"},
  };
  return table;
}

bool EmbeddingLoss::reads(const std::string& key) const {
  if (key == "score") return learns != Learns::nothing;
  if (key == "score-range") return learns != Learns::nothing && learns != Learns::classes;
  return fmt::format(" {} ", options).find(" " + key + " ") != std::string::npos;
}

const EmbeddingLoss& embedding_loss(const std::string& name) {
  const auto losses = embedding_losses();
  const auto found = std::ranges::find_if(losses, [&](const auto& l) { return name == l.name; });
  if (found == losses.end()) throw usage_error("--embedding.loss {}: there is no such loss", name);
  return *found;
}

}  // namespace gpuhpc
