// Against sentence-transformers' InformationRetrievalEvaluator
// (data_tools/fixtures/make_embedding.py).
#include "gpuhpc/eval/retrieval.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace gpuhpc {
namespace {

TEST(Retrieval, HasTheFiguresOfSentenceTransformers) {
  std::ifstream file(GPUHPC_FIXTURES "/retrieval.json");
  const auto expected = nlohmann::json::parse(file);
  const std::vector<std::vector<std::int32_t>> found = expected["found"],
                                               relevant = expected["relevant"];
  const Figures figures = retrieval_figures(found, relevant);
  EXPECT_EQ(figures.size(), expected["figures"].size());
  for (const auto& [name, value] : figures)
    EXPECT_NEAR(value, expected["figures"].at(name).get<double>(), 1e-12) << name;
}

}  // namespace
}  // namespace gpuhpc
