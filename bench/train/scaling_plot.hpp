#pragma once
// The scaling figures as one SVG file that stands alone: speed-up over ranks, and where the time of
// a step goes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scaling_runs.hpp"

namespace gpuhpc {

constexpr const char* scaling_style =
    "text{font:12px "
    "system-ui,sans-serif;fill:#5c6670}text.value,text.title{fill:#1d2329}text.title{font-weight:"
    "600}.grid{stroke:#e3e6e8}.axis{stroke:#9aa3ab}.line{fill:none;stroke-width:2}.series0{stroke:#"
    "9aa3ab;stroke-dasharray:4 "
    "4}.series1{stroke:#2463a8}.series2{stroke:#d9822b}.series3{stroke:#3b8f6b}.dot{stroke:none}."
    "dot.series0{fill:#9aa3ab}.dot.series1{fill:#2463a8}.dot.series2{fill:#d9822b}.dot.series3{"
    "fill:#3b8f6b}.data{fill:#3b8f6b}.compute{fill:#2463a8}.exposed{fill:#d9822b}.update{fill:#"
    "8a5fb0}.other{fill:#9aa3ab}";

inline std::string key(const std::string& css, double x, double y, const std::string& text) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"10\" height=\"10\"/><text x=\"{}\" "
      "y=\"{}\">{}</text>",
      css, x, y, x + 15, y + 9, text);
}

// A line and its points, from (1, 1) at the lower left to (last, last) at the upper right.
inline std::string line_of(const std::vector<double>& ranks, const std::vector<double>& speed_ups,
                           double last, std::size_t number, double x) {
  const auto at = [&](double value) { return last > 1 ? (value - 1) / (last - 1) : 0; };
  std::string points, dots;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double right = x + 50 + 348 * at(ranks[i]), down = 210 - 182 * at(speed_ups[i]);
    points += fmt::format("{:.1f},{:.1f} ", right, down);
    dots += fmt::format("<circle class=\"dot series{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>",
                        number, right, down);
    if (number > 0 && i + 1 == ranks.size())
      dots += fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\">{:.2f}</text>",
                          right + 7, down + 4, speed_ups[i]);
  }
  return fmt::format("<polyline class=\"line series{}\" points=\"{}\"/>{}", number, points, dots);
}

inline std::string axes(double last, double x) {
  std::string svg = fmt::format(
      "<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"210\" y2=\"210\"/><text x=\"{1}\" y=\"240\" "
      "text-anchor=\"end\">ranks</text>",
      x + 50, x + 398);
  for (double ranks = 1; ranks <= last; ranks *= 2) {
    const double at = last > 1 ? (ranks - 1) / (last - 1) : 0;
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"226\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>",
        x + 50 + 348 * at, ranks, x + 44, 214 - 182 * at, ranks);
  }
  return svg;
}

// Tokens a second against one rank's, for the runs that differ in ranks alone.
inline std::string speed_up(const std::vector<ScalingRun>& runs, const std::string& kind,
                            double x) {
  std::string legend =
      fmt::format("<text class=\"title\" x=\"{}\" y=\"18\">{} scaling: speed-up over ranks</text>",
                  x + 50, kind);
  double last = 1;
  for (const ScalingRun& run : runs)
    if (run.kind == kind) last = std::max<double>(last, run.ranks / base_of(runs, run).ranks);
  std::string chart = axes(last, x) + line_of({1, last}, {1, last}, last, 0, x);
  std::size_t number = 1;
  for (const char* place : {"machine", "nodes", "cluster"}) {
    std::vector<double> ranks, speed_ups;
    for (const ScalingRun& run : runs)
      if (run.kind == kind && run.place == place && run.wire == runs.front().wire &&
          run.layers == runs.front().layers) {
        ranks.push_back(static_cast<double>(run.ranks) / base_of(runs, run).ranks);
        speed_ups.push_back(ranks.back() * efficiency(runs, run));
      }
    if (ranks.empty()) continue;
    chart += line_of(ranks, speed_ups, last, number, x);
    legend += key(fmt::format("dot series{}", number), x + 60,
                  16 + 16 * static_cast<double>(number), place);
    ++number;
  }
  if (number == 1) return "";
  return chart + legend;
}

inline std::string label_of(const ScalingRun& run) {
  return fmt::format("{}, {}, {} rank{}{}{}", run.kind, run.place, run.ranks,
                     run.ranks == 1 ? "" : "s", run.wire == "bf16" ? ", bf16 sums" : "",
                     run.layers < 0 ? ", embeddings too" : "");
}

inline std::string scaling_svg(const std::vector<ScalingRun>& runs) {
  const double top = 290, left = 250, row = 20;
  const double height = top + row * static_cast<double>(runs.size()) + 20;
  double longest = 0;
  for (const ScalingRun& run : runs) longest = std::max(longest, run.mean.wall);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 940 {0}\" width=\"940\" "
      "height=\"{0}\"><style>{1}</style><rect width=\"940\" height=\"{0}\" fill=\"#fff\"/>\n",
      height, scaling_style);
  svg += speed_up(runs, "weak", 0) + "\n" + speed_up(runs, "strong", 470) + "\n";
  svg += fmt::format("<text class=\"title\" x=\"10\" y=\"{}\">Milliseconds of a step</text>",
                     top - 14);
  double x = left;
  for (const std::string name : {"data", "compute", "exposed", "update", "other"}) {
    svg += key(name, x, top - 23, name == "exposed" ? "exposed communication" : name);
    x += name == "exposed" ? 170 : 85;
  }
  double y = top;
  for (const ScalingRun& run : runs) {
    svg += fmt::format("\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", left - 8, y + 12,
                       label_of(run));
    double at = left;
    const ScalingStep& m = run.mean;
    const std::pair<const char*, double> parts[] = {{"data", m.data},
                                                    {"compute", m.compute},
                                                    {"exposed", m.exposed},
                                                    {"update", m.update},
                                                    {"other", m.other()}};
    for (const auto& [name, seconds] : parts) {
      const double width = std::max(0.0, seconds) / longest * 600;
      svg +=
          fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"14\"/>",
                      name, at, y, width);
      at += width;
    }
    svg += fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{}\">{:.0f}</text>", at + 6, y + 12,
                       1e3 * run.mean.wall);
    y += row;
  }
  return svg + "\n</svg>\n";
}

}  // namespace gpuhpc
