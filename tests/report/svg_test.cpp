#include "gpuhpc/report/svg.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

// Numbers of an attribute of all elements that start so.
std::vector<double> numbers(const std::string& svg, const std::string& element,
                            const std::string& attribute) {
  std::vector<double> list;
  for (std::size_t at = svg.find(element); at != std::string::npos; at = svg.find(element, at + 1))
    list.push_back(
        std::stod(svg.substr(svg.find(" " + attribute + "=\"", at) + attribute.size() + 3)));
  return list;
}

TEST(Svg, LastValuesStandApartAndInsideTheChart) {
  const std::string svg = curve_svg({"loss",
                                     "step",
                                     {{"a", {0, 1}, {9, 0}},
                                      {"b", {0, 1}, {8, 0.001}},
                                      {"c", {0, 1}, {7, 0.002}},
                                      {"d", {0, 1}, {7, 9}}}});
  std::vector<double> heights_of_texts = numbers(svg, "<text class=\"value\"", "y");
  ASSERT_EQ(heights_of_texts.size(), 4u);
  std::ranges::sort(heights_of_texts);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GE(heights_of_texts[i] - heights_of_texts[i - 1], 12);
  EXPECT_GE(heights_of_texts.front(), 12);
  EXPECT_LE(heights_of_texts.back(), 202);
}

TEST(Svg, NumbersWithoutResolutionEndTheirAxes) {
  for (const auto& [low, high] :
       {std::pair{1e17, 1e17 + 16}, {-1e99, 1e99}, {1e14, 1e14 + 0.015625}})
    EXPECT_LT(
        curve_svg({"far", "step", {{"a", {low, high}, {low, high}}, {"b", {1, 2}, {low, high}}}})
            .size(),
        5000u);
  EXPECT_EQ(curve_svg({"too far", "step", {{"a", {0, 1}, {-1e308, 1e308}}}}), "");
}

TEST(Svg, PartsOfAStepAreStackedAndAveragedOverNeighbours) {
  ReportSplit split{"", {}, {{"compute", {}}, {"sum", {}}}};
  for (int step = 1; step <= 600; ++step) {
    split.steps.push_back(step);
    split.parts[0].seconds.push_back(step % 2 == 0 ? 0.004 : 0.002);
    split.parts[1].seconds.push_back(0.001);
  }
  const std::string svg = split_svg(split);
  const auto compute = numbers(svg, "<rect class=\"p-compute\"", "height"),
             sum = numbers(svg, "<rect class=\"p-sum\"", "height");
  ASSERT_EQ(compute.size(), 60u);
  ASSERT_EQ(sum.size(), 60u);
  EXPECT_NEAR(compute[7] / sum[7], 3, 0.01);
  EXPECT_NEAR(numbers(svg, "<rect class=\"p-sum\"", "y")[7] + sum[7],
              numbers(svg, "<rect class=\"p-compute\"", "y")[7], 0.02)
      << "one on the other";
  EXPECT_NE(svg.find("<title>steps 1 to 10: compute 3 ms sum 1 ms</title>"), std::string::npos);
  EXPECT_EQ(split_svg({"", {1}, {{"compute", {0}}}}), "");
  EXPECT_EQ(split_svg({}), "");
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
