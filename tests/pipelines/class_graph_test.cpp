// The graph head against its formulas written class by class in PyTorch
// (data_tools/fixtures/make_taxoclass.py).
#include "gpuhpc/pipelines/label/taxoclass/graph/class_graph.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gpuhpc {
namespace {

using nlohmann::json;

at::Tensor tensor_of(const json& values, std::vector<std::int64_t> shape) {
  std::vector<float> numbers = values;
  return at::from_blob(numbers.data(), shape, at::TensorOptions().dtype(at::kFloat)).clone();
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return a.detach().sub(b.detach()).abs().max().item<double>();
}

struct GraphFixture {
  json all, run;
  Taxonomy taxonomy;
  std::vector<float> bias, common;
  Matrix features;

  explicit GraphFixture(std::size_t which) {
    std::ifstream(GPUHPC_FIXTURES "/class_graph.json") >> all;
    run = all["runs"][which];
    std::vector<std::string> names;
    for (int c = 0; c < all["classes"].get<int>(); ++c)
      names.push_back("class " + std::to_string(c));
    std::vector<TaxonomyEdge> edges;
    for (const auto& e : all["edges"]) edges.push_back({e[0], e[1]});
    taxonomy = Taxonomy(names, edges);
    const json& x = run["parameters"]["features"];
    features = Matrix(x["shape"][0], x["shape"][1]);
    features.values = x["values"].get<std::vector<float>>();
    bias = run["parameters"]["bias"]["values"].get<std::vector<float>>();
    common = run["mean"].get<std::vector<float>>();
    for (float& value : common) value *= run["centring"].get<float>();
  }
  // With the fixture's weights in place of the drawn ones.
  ClassGraphHead head() const {
    ClassGraphHead head(taxonomy, features.view(), bias, common,
                        {run["hidden"], run["layers"], run["residual"], run["scale"]}, 1);
    for (const auto& parameter : head.parameters()) {
      const json& expected = run["parameters"].at(parameter.name);
      EXPECT_EQ(parameter.value.sizes().vec(), expected["shape"].get<std::vector<std::int64_t>>())
          << parameter.name;
      parameter.value.detach().copy_(tensor_of(expected["values"], expected["shape"]));
    }
    return head;
  }
  at::Tensor documents() const {
    return tensor_of(run["document_rows"], {run["documents"], run["width"]})
        .set_requires_grad(true);
  }
};

class ClassGraph : public testing::TestWithParam<std::size_t> {};

TEST_P(ClassGraph, LogitsLossAndGradientsAreThoseOfTheFormulas) {
  const GraphFixture fixture(GetParam());
  const ClassGraphHead head = fixture.head();
  const at::Tensor documents = fixture.documents(), logits = head.logits(documents);
  const std::vector<std::int64_t> shape{fixture.run["documents"], fixture.taxonomy.size()};
  EXPECT_LT(worst(logits, tensor_of(fixture.run["logits"], shape)), 1e-4);
  const at::Tensor loss = binary_divergence(logits, tensor_of(fixture.run["targets"], shape));
  EXPECT_NEAR(loss.item<double>(), fixture.run["loss"].get<double>(), 1e-3);
  loss.backward();
  EXPECT_LT(worst(documents.grad(), tensor_of(fixture.run["document_gradient"],
                                              {fixture.run["documents"], fixture.run["width"]})),
            1e-3);
  for (const auto& parameter : head.parameters()) {
    const json& expected = fixture.run["parameters"].at(parameter.name);
    EXPECT_LT(worst(parameter.value.grad(), tensor_of(expected["gradient"], expected["shape"])),
              1e-3)
        << parameter.name;
  }
}
INSTANTIATE_TEST_SUITE_P(PublishedAndResidual, ClassGraph, testing::Values(0u, 1u));

TEST(ClassGraph, GradientsAgreeWithDifferences) {
  const GraphFixture fixture(1);
  const ClassGraphHead head = fixture.head();
  const at::Tensor documents = fixture.documents(),
                   targets = tensor_of(fixture.run["targets"],
                                       {fixture.run["documents"], fixture.taxonomy.size()});
  const auto loss = [&] { return binary_divergence(head.logits(documents), targets); };
  loss().backward();
  const c10::NoGradGuard no_grad;
  for (const auto& parameter : head.parameters()) {
    float* values = parameter.value.mutable_data_ptr<float>();
    const float* gradient = parameter.value.grad().const_data_ptr<float>();
    for (std::int64_t i = 0; i < parameter.value.numel(); i += 3) {
      const float kept = values[i], h = 2e-3F;
      values[i] = kept + h;
      const double above = loss().item<double>();
      values[i] = kept - h;
      const double below = loss().item<double>();
      values[i] = kept;
      EXPECT_NEAR((above - below) / (2 * h), gradient[i],
                  .03 * std::max(1.0F, std::abs(gradient[i])))
          << parameter.name << " " << i;
    }
  }
}

TEST(ClassGraph, ResidualHeadStartsAsItsFeatures) {
  const GraphFixture fixture(1);
  const ClassGraphHead head(fixture.taxonomy, fixture.features.view(), fixture.bias, fixture.common,
                            {5, 3, true, 1}, 7);
  EXPECT_EQ(head.class_vectors().values, fixture.features.values);
  EXPECT_EQ(head.bias(), fixture.bias);
}

TEST(ClassGraph, EdgesStayWithinANetworkWhoseSharesSumToOne) {
  const GraphFixture fixture(0);
  const EgoNetworks networks = ego_networks(fixture.taxonomy);
  double shares = 0;
  for (const float share : networks.shares) shares += share;
  EXPECT_NEAR(shares, static_cast<double>(fixture.taxonomy.size()), 1e-5);
  for (std::size_t e = 0; e < networks.sources.size(); ++e)
    EXPECT_EQ(networks.owners[static_cast<std::size_t>(networks.sources[e])],
              networks.owners[static_cast<std::size_t>(networks.targets[e])]);
}

TEST(BinaryDivergence, IsZeroWhereTheTargetsAreMetAlsoAtTheEnds) {
  const at::Tensor logits = tensor_of({200.0, -200.0, 0.0}, {1, 3}),
                   targets = tensor_of({1.0, 0.0, .5}, {1, 3});
  EXPECT_NEAR(binary_divergence(logits, targets).item<double>(), 0, 1e-6);
}

}  // namespace
}  // namespace gpuhpc
