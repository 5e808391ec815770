// Stored vectors against sentence-transformers': data_tools/fixtures/make_quantized.py.
#include "gpuhpc/infer/quantize.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

Matrix matrix(const Json& rows) {
  Matrix result(std::ssize(rows), std::ssize(rows.at(0)));
  for (std::int64_t i = 0; i < result.rows; ++i)
    std::ranges::copy(rows.at(static_cast<std::size_t>(i)).get<std::vector<float>>(),
                      result.row(i).begin());
  return result;
}

TEST(Quantized, VectorsEqualSentenceTransformers) {
  const Json fixture = read_json(std::filesystem::path(GPUHPC_FIXTURES) / "quantized.json");
  const Matrix vectors = matrix(fixture.at("vectors")), other = matrix(fixture.at("calibration"));
  for (const auto& [from, ranged] : {std::pair{"own", &vectors}, std::pair{"calibrated", &other}}) {
    ColumnRanges ranges;
    ranges.add({ranged->values.data(), 2, ranged->columns});  // in two parts
    ranges.add({ranged->row(2).data(), ranged->rows - 2, ranged->columns});
    EXPECT_EQ(ranges.rows, ranged->rows);
    for (const auto& [name, rows] : fixture.at(from).items())
      for (std::int64_t i = 0; i < vectors.rows; ++i)
        EXPECT_EQ(quantize(vectors.row(i), parse_quantization(name), ranges),
                  rows.at(static_cast<std::size_t>(i)).get<std::vector<int>>())
            << from << " " << name << " " << i;
  }
  EXPECT_THROW(parse_quantization("int4"), Error);
}

}  // namespace
}  // namespace gpuhpc
