#include "gpuhpc/report/svg.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace gpuhpc {
namespace {

// The heights of the bars of one class.
std::vector<double> heights(const std::string& svg, const std::string& name) {
  std::vector<double> numbers;
  const std::string bar = "<rect class=\"" + name + "\"", attribute = " height=\"";
  for (std::size_t at = svg.find(bar); at != std::string::npos; at = svg.find(bar, at + 1))
    numbers.push_back(std::stod(svg.substr(svg.find(attribute, at) + attribute.size())));
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
  const auto right = heights(svg, "right"), wrong = heights(svg, "wrong");
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
