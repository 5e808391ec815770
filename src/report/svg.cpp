#include "gpuhpc/report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "gpuhpc/report/html.hpp"

namespace gpuhpc {
namespace {

// The drawing area in user units; text is 12 units high.
struct Frame {
  double width = 460, height = 230, left = 50, right = 12, top = 14, bottom = 34;
  double x(double fraction) const { return left + fraction * (width - left - right); }
  double y(double fraction) const { return height - bottom - fraction * (height - top - bottom); }
};

std::string open_svg(const Frame& frame, const std::string& label) {
  return fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
                     frame.width, frame.height, escape_html(label));
}

// "1.5k", "0.25": short enough for an axis whose steps are `step` apart.
std::string axis_number(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  if (step < 1e-4) return fmt::format("{:.2g}", value);
  if (step >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (step >= 1000) return fmt::format("{:g}k", value / 1000);
  const int digits =
      step > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9) : 0;
  return fmt::format("{:.{}f}", value, digits);
}

// "2.16k": the last value of a line, in the room beside the chart.
std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.2g}", value);
  if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e3) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.3g}", value);
}

// Where the marks of an axis stand. Counted: steps below the resolution of the numbers would never
// reach the end.
std::vector<double> axis_values(double low, double high, double step) {
  const double first = std::ceil(low / step - 1e-9) * step;
  std::vector<double> values;
  for (int i = 0; i < 12 && first + i * step <= high + step * 1e-6; ++i)
    values.push_back(first + i * step);
  return values;
}

// Horizontal grid lines with their values, from `low` to `high`.
std::string y_axis(const Frame& frame, double low, double high) {
  const double step = axis_step(low, high, 4);
  std::string svg;
  for (const double value : axis_values(low, high, step)) {
    const double y = frame.y((value - low) / (high - low));
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
        frame.x(0), frame.x(1), y, y);
    svg +=
        fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                    frame.left - 6, y + 4, axis_number(value, step));
  }
  return svg;
}

std::string x_axis(const Frame& frame, double low, double high, int most,
                   const std::string& label) {
  const double step =
      std::max(axis_step(low, high, most),
               label == "step" ? 1.0 : 0.0);  // there are no halves of a training step
  std::string svg =
      fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                  frame.x(0), frame.x(1), frame.y(0), frame.y(0));
  for (const double value : axis_values(low, high, step))
    svg += fmt::format(
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        frame.x((value - low) / (high - low)), frame.height - 19, axis_number(value, step));
  return svg +
         fmt::format(
             "<text class=\"tick label\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
             frame.x(1), frame.height - 4, escape_html(label));
}

struct Bounds {
  double x_low, x_high, y_low, y_high;
};

// Beyond these, differences are not finite or vanish.
constexpr double largest_x = 1e15, largest_y = 1e100;

bool drawable(const ReportSeries& series, std::size_t i) {
  return std::abs(series.x[i]) < largest_x && std::abs(series.y[i]) < largest_y;
}

// Nothing when no point can be drawn.
std::optional<Bounds> bounds_of(const ReportCurve& curve) {
  Bounds bounds{INFINITY, -INFINITY, INFINITY, -INFINITY};
  for (const ReportSeries& series : curve.series)
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!drawable(series, i)) continue;
      bounds.x_low = std::min(bounds.x_low, series.x[i]);
      bounds.x_high = std::max(bounds.x_high, series.x[i]);
      bounds.y_low = std::min(bounds.y_low, series.y[i]);
      bounds.y_high = std::max(bounds.y_high, series.y[i]);
    }
  if (bounds.x_low > bounds.x_high) return std::nullopt;
  if (bounds.x_low == bounds.x_high) bounds.x_high = bounds.x_low + 1;
  if (bounds.y_low == bounds.y_high)
    bounds.y_high = bounds.y_low + std::max(1e-6, std::abs(bounds.y_low) * 0.1);
  const double step = axis_step(bounds.y_low, bounds.y_high, 4);
  bounds.y_low = std::floor(bounds.y_low / step) * step;
  bounds.y_high = std::ceil(bounds.y_high / step) * step;
  return bounds;
}

constexpr std::size_t points_drawn = 400;  // more cannot be told apart, and the page stays small

// The last point of a line and what is written beside it.
struct LineEnd {
  double x, y, text_y;
  std::string text;
};

std::string line_of(const ReportSeries& series, const Bounds& bounds, const Frame& frame,
                    std::size_t number, std::vector<LineEnd>& ends) {
  std::string points;
  double x = 0, y = 0, last = 0;
  const std::size_t count = series.x.size(),
                    stride = std::max<std::size_t>(1, count / points_drawn);
  for (std::size_t i = 0; i < count; ++i) {
    if ((i % stride != 0 && i + 1 != count) || !drawable(series, i)) continue;
    x = frame.x((series.x[i] - bounds.x_low) / (bounds.x_high - bounds.x_low));
    y = frame.y((series.y[i] - bounds.y_low) / (bounds.y_high - bounds.y_low));
    last = series.y[i];
    points += fmt::format("{:.1f},{:.1f} ", x, y);
  }
  if (points.empty()) return "";
  ends.push_back({x, y, y + 4, short_number(last)});
  return fmt::format(
      "<polyline class=\"line series{0}\" points=\"{1}\"/><circle class=\"dot series{0}\" "
      "cx=\"{2:.1f}\" cy=\"{3:.1f}\" r=\"3.5\"/>",
      number, points, x, y);
}

// The last values, moved apart where lines end close together.
std::string end_texts(const Frame& frame, std::vector<LineEnd> ends) {
  constexpr double apart = 12.5;
  const auto near = [&](std::size_t i, std::size_t j) {
    return std::abs(ends[i].x - ends[j].x) < 45;
  };
  std::ranges::stable_sort(ends, {}, &LineEnd::text_y);
  for (std::size_t i = 0; i < ends.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (near(i, j)) ends[i].text_y = std::max(ends[i].text_y, ends[j].text_y + apart);
  for (std::size_t i = ends.size(); i-- > 0;) {
    ends[i].text_y = std::min(ends[i].text_y, frame.y(0) + 4);
    for (std::size_t j = i + 1; j < ends.size(); ++j)
      if (near(i, j)) ends[i].text_y = std::min(ends[i].text_y, ends[j].text_y - apart);
  }
  std::string svg;
  for (const LineEnd& end : ends)
    svg += fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", end.x + 7,
                       end.text_y, end.text);
  return svg;
}

}  // namespace

double axis_step(double low, double high, int most) {
  const double rough = (high - low) / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string histogram_svg(const ScoreHistogram& histogram, bool with_gold,
                          const std::string& label) {
  const Frame frame;
  std::int64_t highest = 1;
  for (std::size_t b = 0; b < ScoreHistogram::bins; ++b)
    highest = std::max(highest, histogram.correct[b] + histogram.wrong[b]);
  const double step = axis_step(0, static_cast<double>(highest), 4);
  const double top = std::ceil(static_cast<double>(highest) / step) * step;
  std::string svg = open_svg(frame, label) + y_axis(frame, 0, top);
  const double bar = (frame.x(1) - frame.x(0)) / static_cast<double>(ScoreHistogram::bins);
  for (std::size_t b = 0; b < ScoreHistogram::bins; ++b) {
    const auto right = static_cast<double>(histogram.correct[b]),
               both = right + static_cast<double>(histogram.wrong[b]);
    const double x = frame.x(0) + static_cast<double>(b) * bar + 1;
    const double edge = 1.0 / static_cast<double>(ScoreHistogram::bins);
    const std::string tip =
        with_gold ? fmt::format("{} right, {} wrong", histogram.correct[b], histogram.wrong[b])
                  : fmt::format("{}", both);
    const auto rect = [&](const char* name, double from, double to) {
      if (to <= from) return std::string();
      return fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\"/>", name,
          x, frame.y(to / top), bar - 2, frame.y(from / top) - frame.y(to / top));
    };
    svg += fmt::format("<g><title>{:.2f} to {:.2f}: {}</title>", static_cast<double>(b) * edge,
                       static_cast<double>(b + 1) * edge, tip);
    svg += rect(with_gold ? "right" : "plain", 0, right) + rect("wrong", right, both) + "</g>";
  }
  return svg + x_axis(frame, 0, 1, 5, "score") + "</svg>";
}

std::string curve_svg(const ReportCurve& curve) {
  Frame frame;
  frame.right = 62;  // room for the last values
  const std::optional<Bounds> bounds = bounds_of(curve);
  if (!bounds) return "";
  std::string svg = open_svg(frame, curve.title) + y_axis(frame, bounds->y_low, bounds->y_high);
  svg += x_axis(frame, bounds->x_low, bounds->x_high, 5, curve.x_label);
  std::vector<LineEnd> ends;
  for (std::size_t s = 0; s < curve.series.size(); ++s)
    svg += line_of(curve.series[s], *bounds, frame, s % 8, ends);
  return svg + end_texts(frame, std::move(ends)) + "</svg>";
}

std::string split_svg(const ReportSplit& split) {
  if (split.steps.empty() || split.parts.empty()) return "";
  const std::size_t count = split.steps.size(), bars = std::min<std::size_t>(count, 60);
  std::vector<std::vector<double>> heights(bars);  // milliseconds: (bars, parts)
  double highest = 0;
  for (std::size_t b = 0; b < bars; ++b) {
    const std::size_t first = b * count / bars, last = (b + 1) * count / bars;
    for (const ReportPart& part : split.parts)
      heights[b].push_back(
          1000 *
          std::accumulate(part.seconds.begin() + static_cast<std::ptrdiff_t>(first),
                          part.seconds.begin() + static_cast<std::ptrdiff_t>(last), 0.0) /
          static_cast<double>(last - first));
    highest = std::max(highest, std::accumulate(heights[b].begin(), heights[b].end(), 0.0));
  }
  if (!(highest > 0) || highest > largest_y) return "";
  const Frame frame;
  const double axis = axis_step(0, highest, 4), top = std::ceil(highest / axis) * axis,
               width = (frame.x(1) - frame.x(0)) / static_cast<double>(bars);
  std::string svg = open_svg(frame, "milliseconds a step, part by part") + y_axis(frame, 0, top);
  for (std::size_t b = 0; b < bars; ++b) {
    const auto step = [&](std::size_t i) {
      return std::clamp(split.steps[i], -largest_x, largest_x);
    };
    std::string tip = fmt::format("steps {:.0f} to {:.0f}:", step(b * count / bars),
                                  step((b + 1) * count / bars - 1)),
                bar;
    double from = 0;
    for (std::size_t p = 0; p < split.parts.size(); ++p) {
      const double to = from + heights[b][p];
      tip += fmt::format(" {} {:.3g} ms", split.parts[p].name, heights[b][p]);
      if (to > from)
        bar += fmt::format(
            "<rect class=\"p-{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>",
            split.parts[p].name, frame.x(0) + width * (static_cast<double>(b) + .06),
            frame.y(to / top), .88 * width, frame.y(from / top) - frame.y(to / top));
      from = to;
    }
    svg += fmt::format("<g><title>{}</title>{}</g>", tip, bar);
  }
  const double before = count > 1
                            ? split.steps.front() - 1
                            : split.steps.front() - .5;  // a bar stands for the whole of its steps
  return svg + x_axis(frame, before, std::max(split.steps.back(), before + 1), 5, "step") +
         "</svg>";
}

}  // namespace gpuhpc
