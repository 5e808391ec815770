// Against SciPy 1.17.1: scipy.stats.pearsonr and spearmanr of the same numbers.
#include "gpuhpc/eval/correlation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gpuhpc {
namespace {

TEST(Correlation, IsThatOfSciPyWithEqualNumbersToo) {
  const std::vector<double> x{.1, 2.5, -3, 2.5, .7, 9, .1, 4.4}, y{1, 0, -2, 3.5, 3.5, 8, .2, 3.5};
  EXPECT_NEAR(pearson(x, y), 0.8907734419099872, 1e-14);
  EXPECT_NEAR(spearman(x, y), 0.7531438174453121, 1e-14);
}

}  // namespace
}  // namespace gpuhpc
