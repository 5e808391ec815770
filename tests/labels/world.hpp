#pragma once
// The small worlds of tests/labels/fixtures (data_tools/fixtures/make_labels.py): inputs and
// NumPy's answers.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct World {
  nlohmann::json json;
  Taxonomy taxonomy;
  std::int64_t train = 0;
  std::vector<std::string> texts;

  explicit World(const std::string& name) {
    std::ifstream(std::string(GPUHPC_FIXTURES) + "/" + name + ".json") >> json;
    std::vector<TaxonomyEdge> edges;
    for (const auto& e : json.at("edges")) edges.push_back({e[0], e[1]});
    taxonomy = Taxonomy(json.at("names"), edges);
    train = json.at("train");
    texts = json.at("texts").get<std::vector<std::string>>();
  }
  const nlohmann::json& expected(const std::string& key) const {
    return json.at("expected").at(key);
  }
  const nlohmann::json& published(const std::string& key) const {
    return json.at("published").at(key);
  }
};

inline Matrix matrix_of(const nlohmann::json& rows) {
  Matrix matrix(std::ssize(rows), std::ssize(rows.at(0)));
  std::size_t i = 0;
  for (const auto& row : rows)
    for (const float value : row) matrix.values[i++] = value;
  return matrix;
}

inline MutableMatrixView rows_of(Matrix& matrix, std::int64_t first, std::int64_t count) {
  return matrix.view().slice(first, count);
}

inline void expect_near(const std::vector<float>& found, const nlohmann::json& expected,
                        double tolerance = 1e-5) {
  const auto flat =
      expected.at(0).is_array() ? matrix_of(expected).values : expected.get<std::vector<float>>();
  ASSERT_EQ(found.size(), flat.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::isfinite(found[i])) << i;
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - flat[i]));
  }
  EXPECT_LE(worst, tolerance);
}

template <typename T>
std::vector<T> plain(std::span<const T> values) {
  return {values.begin(), values.end()};
}

class LabelWorlds : public testing::TestWithParam<std::string> {
 protected:
  World world{GetParam()};
};

}  // namespace gpuhpc
