#include "gpuhpc/report/svg.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

namespace gpuhpc {
namespace {

std::vector<double> numbers_after(const std::string& text, const std::string& pattern) {
  std::vector<double> numbers;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    numbers.push_back(std::stod((*match)[1]));
  return numbers;
}

TEST(Svg, AxisStepsAreRound) {
  EXPECT_DOUBLE_EQ(axis_step(0, 100, 4), 50);
  EXPECT_DOUBLE_EQ(axis_step(0, 4, 4), 1);
  EXPECT_DOUBLE_EQ(axis_step(0, 0.83, 4), 0.5);
  EXPECT_DOUBLE_EQ(axis_step(1, 1.0009, 5), 0.0002);
}

TEST(Svg, HistogramBarsAreAsHighAsTheirCounts) {
  ScoreHistogram histogram;
  histogram.correct[3] = 30;
  histogram.wrong[3] = 10;
  histogram.wrong[19] = 20;
  const std::string svg = histogram_svg(histogram, true, "scores");
  const auto right = numbers_after(svg, "class=\"right\"[^>]*height=\"([0-9.]+)\""),
             wrong = numbers_after(svg, "class=\"wrong\"[^>]*height=\"([0-9.]+)\"");
  ASSERT_EQ(right.size(), 1u);
  ASSERT_EQ(wrong.size(), 2u);
  EXPECT_NEAR(right[0] / wrong[0], 3, 0.01);
  EXPECT_NEAR(wrong[1] / wrong[0], 2, 0.01);
  EXPECT_NE(svg.find("<title>0.15 to 0.20: 30 right, 10 wrong</title>"), std::string::npos);
}

TEST(Svg, CurvesLeaveOutWhatIsNotFinite) {
  const std::string svg = curve_svg({"loss", "step", {{"a", {0, 1, 2, 3}, {1, NAN, INFINITY, 2}}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find(">2</text>"), std::string::npos);
  EXPECT_EQ(curve_svg({"loss", "step", {{"a", {0}, {NAN}}}}), "");
  EXPECT_EQ(curve_svg({"loss", "step", {}}), "");
  EXPECT_EQ(curve_svg({"flat", "step", {{"a", {5}, {3}}}}).find("nan"), std::string::npos);
}

TEST(Svg, LongCurvesAreThinned) {
  ReportSeries series{"a", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(std::sin(i * 1e-3));
  }
  EXPECT_LT(curve_svg({"long", "step", {series}}).size(), 12000u);
}

}  // namespace
}  // namespace gpuhpc
