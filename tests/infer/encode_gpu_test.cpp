// Documents to vectors on a GPU beside the processor, real weights (GPUHPC_MODELS names the folder
// that holds all-MiniLM-L6-v2).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

std::string model_folder() {
  const char* elsewhere = std::getenv("GPUHPC_MODELS");
  return std::string(elsewhere != nullptr ? elsewhere : GPUHPC_MODELS) + "/all-MiniLM-L6-v2";
}

std::vector<std::vector<std::int32_t>> ragged_documents() {
  std::mt19937 random(11);
  std::vector<std::vector<std::int32_t>> all;
  for (const std::int64_t length : {5, 100, 0, 31, 254, 700, 7, 64, 1, 80, 12, 3}) {
    auto& ids = all.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(1000 + random() % 20000));
  }
  return all;
}

class EncodeOnGpu : public testing::Test {
 protected:
  Matrix encode(bool cuda, const std::string& precision, std::int64_t budget = 0) const {
    InferOptions options;
    options.precision = precision;
    options.long_documents = "mean";  // the one of 700 tokens
    options.token_budget = budget;
    const DocumentEncoder encoder(cuda ? there_ : here_, *tokenizer_, options, {cuda, 0, 2});
    return encoder.encode(token_source(documents_));
  }
  std::vector<std::vector<std::int32_t>> documents_ = ragged_documents();
  LoadedEncoder here_ = load_encoder(model_folder()),
                there_ = load_encoder(model_folder(), {at::kCUDA, 0});
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(model_folder());
};

double largest_difference(const Matrix& a, const Matrix& b) {
  double most = a.values.size() == b.values.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.values[i]) - b.values[i]));
  return most;
}

double smallest_cosine(const Matrix& a, const Matrix& b) {
  double least = 1;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    double product = 0, of_a = 0, of_b = 0;
    for (std::size_t i = 0; i < a.row(r).size(); ++i) {
      const double x = a.row(r)[i], y = b.row(r)[i];
      product += x * y, of_a += x * x, of_b += y * y;
    }
    least = std::min(least, product / std::sqrt(of_a * of_b));
  }
  return least;
}

TEST_F(EncodeOnGpu, VectorsAreTheProcessors) {
  const Matrix wanted = encode(false, "fp32");
  EXPECT_LE(largest_difference(encode(true, "fp32"), wanted), 2e-5);
  EXPECT_GE(smallest_cosine(encode(true, "bf16"), wanted), .999);
}

TEST_F(EncodeOnGpu, BatchSizesHardlyMatter) {
  const Matrix whole = encode(true, "fp32");
  for (const std::int64_t budget : {1, 128})
    EXPECT_LE(largest_difference(encode(true, "fp32", budget), whole), 1e-5) << budget;
}

}  // namespace
}  // namespace gpuhpc
