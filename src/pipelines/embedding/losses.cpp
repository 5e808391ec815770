#include "gpuhpc/pipelines/embedding/losses.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using Scores = at::Tensor;
using Options = PairLossOptions;

at::Tensor mnrl(const Columns& c, const Scores&, const Options& o) {
  return in_batch_negatives(c, o.scale);
}
at::Tensor symmetric(const Columns& c, const Scores&, const Options& o) {
  return symmetric_in_batch_negatives(c, o.scale);
}
at::Tensor triplet(const Columns& c, const Scores&, const Options& o) {
  return triplet_loss(c, parse_distance(o.distance), o.margin);
}
at::Tensor cosine(const Columns& c, const Scores& scores, const Options&) {
  return cosine_loss(c, scores);
}
at::Tensor cosent(const Columns& c, const Scores& scores, const Options& o) {
  return ranking_loss(row_cosines(c[0], c[1]), scores, o.scale);
}
at::Tensor angle(const Columns& c, const Scores& scores, const Options& o) {
  return ranking_loss(row_angles(c[0], c[1]), scores, o.scale);
}
at::Tensor margin_mse(const Columns& c, const Scores& scores, const Options&) {
  return margin_mse_loss(c, scores);
}

}  // namespace

std::span<const EmbeddingLoss> embedding_losses() {
  using Over = EmbeddingLoss::Over;
  static const EmbeddingLoss table[] = {
      {"mnrl", 2, 1000, false, Over::batch, mnrl},
      {"mnrl-symmetric", 2, 2, false, Over::batch, symmetric},
      {"simcse", 1, 1, false, Over::batch, mnrl},
      {"triplet", 3, 3, false, Over::row, triplet},
      {"cosine", 2, 2, true, Over::row, cosine},
      {"cosent", 2, 2, true, Over::batch_value, cosent},
      {"angle", 2, 2, true, Over::batch_value, angle},
      {"margin-mse", 3, 3, true, Over::row, margin_mse},
  };
  return table;
}

const EmbeddingLoss& embedding_loss(const std::string& name) {
  const auto losses = embedding_losses();
  const auto found = std::ranges::find_if(losses, [&](const auto& l) { return name == l.name; });
  if (found == losses.end()) throw usage_error("--embedding.loss {}: there is no such loss", name);
  return *found;
}

}  // namespace gpuhpc
