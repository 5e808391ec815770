#pragma once
// Charts as SVG text. Colours come from the page's style by class name, so they follow the light or
// dark scheme.
#include <string>

#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/report/model.hpp"

namespace gpuhpc {

// Stacked bars over [0, 1]: correct below wrong when `with_gold`, one colour otherwise.
std::string histogram_svg(const ScoreHistogram& histogram, bool with_gold,
                          const std::string& label);
// Lines over a common x axis, the last value written at the end of each.
std::string curve_svg(const ReportCurve& curve);

// Stacked bars of the mean milliseconds of each part over neighbouring steps. "" without steps or
// parts.
std::string split_svg(const ReportSplit& split);

// Round steps (1, 2 or 5 times a power of ten) that cut [low, high] in at most `most` parts.
double axis_step(double low, double high, int most);

}  // namespace gpuhpc
