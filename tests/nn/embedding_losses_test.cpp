// Losses and gradients against sentence-transformers'
// (data_tools/fixtures/make_embedding.py).
#include "gpuhpc/nn/embedding_losses.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "fixture.hpp"

namespace gpuhpc {
namespace {

at::Tensor rows_of(const nlohmann::json& rows) {
  std::vector<float> numbers;
  for (const auto& row : rows)
    for (const float value : row) numbers.push_back(value);
  const std::int64_t count = std::ssize(rows);
  return at::tensor(numbers).reshape({count, std::ssize(numbers) / count});
}

// Over all 7 and over 4 dimensions.
at::Tensor nested(const Columns& c, const std::function<at::Tensor(const Columns&)>& loss) {
  return (loss(first_dimensions(c, 7)) + loss(first_dimensions(c, 4))) / 5;
}

// Per batch, as the fixture has it: sums over rows divided by the rows.
using Loss = std::function<at::Tensor(const Columns&, const at::Tensor& scores)>;
const std::map<std::string, Loss> losses{
    {"mnrl", [](const Columns& c, const at::Tensor&) { return in_batch_negatives(c, 17) / 5; }},
    {"mnrl-negatives",
     [](const Columns& c, const at::Tensor&) { return in_batch_negatives(c, 17) / 5; }},
    {"mnrl-symmetric",
     [](const Columns& c, const at::Tensor&) { return symmetric_in_batch_negatives(c, 17) / 5; }},
    {"triplet-cosine",
     [](const Columns& c, const at::Tensor&) { return triplet_loss(c, Distance::cosine, .3) / 5; }},
    {"triplet-euclidean",
     [](const Columns& c, const at::Tensor&) {
       return triplet_loss(c, Distance::euclidean, 1.1) / 5;
     }},
    {"triplet-manhattan",
     [](const Columns& c, const at::Tensor&) {
       return triplet_loss(c, Distance::manhattan, 2.3) / 5;
     }},
    {"cosine", [](const Columns& c, const at::Tensor& s) { return cosine_loss(c, s) / 5; }},
    {"cosent", [](const Columns& c,
                  const at::Tensor& s) { return ranking_loss(row_cosines(c[0], c[1]), s, 13); }},
    {"angle", [](const Columns& c,
                 const at::Tensor& s) { return ranking_loss(row_angles(c[0], c[1]), s, 13); }},
    {"distill",
     [](const Columns& c, const at::Tensor& s) { return distillation_loss(c, s, 1.7) / 5; }},
    {"softmax",
     [](const Columns& c, const at::Tensor& s) {
       return softmax_loss(softmax_logits(c, c[2], c[3].squeeze(0)), s) / 5;
     }},
    {"margin-mse", [](const Columns& c, const at::Tensor& s) { return margin_mse_loss(c, s) / 5; }},
    {"matryoshka",
     [](const Columns& c, const at::Tensor&) {
       return (in_batch_negatives(c, 17) + in_batch_negatives(first_dimensions(c, 3), 17)) / 5;
     }},
    {"matryoshka-triplet-euclidean",
     [](const Columns& c, const at::Tensor&) {
       return nested(c, [](const Columns& n) { return triplet_loss(n, Distance::euclidean, 1.1); });
     }},
    {"matryoshka-triplet-manhattan",
     [](const Columns& c, const at::Tensor&) {
       return nested(c, [](const Columns& n) { return triplet_loss(n, Distance::manhattan, 1.3); });
     }},
    {"matryoshka-margin-mse",
     [](const Columns& c, const at::Tensor& s) {
       return nested(c, [&](const Columns& n) { return margin_mse_loss(n, s); });
     }},
    {"matryoshka-distill",
     [](const Columns& c, const at::Tensor& s) {
       return nested(c, [&](const Columns& n) { return distillation_loss(n, s, .7); });
     }},
    {"matryoshka-cosine",
     [](const Columns& c, const at::Tensor& s) {
       return nested(c, [&](const Columns& n) { return cosine_loss(n, s); });
     }},
    {"matryoshka-angle", [](const Columns& c, const at::Tensor& s) {
       return nested(
           c, [&](const Columns& n) { return ranking_loss(row_angles(n[0], n[1]), s, 13) * 5; });
     }}};

TEST(EmbeddingLosses, HaveTheValuesAndGradientsOfSentenceTransformers) {
  std::ifstream file(fixture_path("embedding_losses.json"));
  const auto cases = nlohmann::json::parse(file);
  EXPECT_EQ(cases.size(), losses.size());
  for (const auto& given : cases) {
    SCOPED_TRACE(given["name"].get<std::string>());
    Columns columns;
    for (const auto& column : given["columns"])
      columns.push_back(rows_of(column).set_requires_grad(true));
    const auto& numbers = given["scores"];
    const at::Tensor scores = !numbers.empty() && numbers[0].is_array()
                                  ? rows_of(numbers)
                                  : at::tensor(numbers.get<std::vector<float>>());
    const at::Tensor loss = losses.at(given["name"])(columns, scores);
    EXPECT_NEAR(loss.item<double>(), given["loss"].get<double>(), 1e-5);
    loss.backward();
    for (std::size_t i = 0; i < columns.size(); ++i)
      EXPECT_LT((columns[i].grad() - rows_of(given["gradients"][i])).abs().max().item<float>(),
                1e-5)
          << "column " << i;
  }
}

}  // namespace
}  // namespace gpuhpc
