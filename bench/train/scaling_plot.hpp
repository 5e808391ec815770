#pragma once
// The scaling figures as one SVG file that stands alone: speed-up over ranks, and where the time of
// a step goes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpuhpc/report/html.hpp"
#include "gpuhpc/report/svg.hpp"
#include "scaling_runs.hpp"

namespace gpuhpc {

constexpr const char* scaling_style =
    "text{font:12px "
    "system-ui,sans-serif;fill:#5c6670}text.value,text.title{fill:#1d2329}text.title{font-weight:"
    "600}.grid{stroke:#e3e6e8}.axis{stroke:#9aa3ab}"
    ".line{fill:none;stroke-width:2}.series0{stroke:#9aa3ab;stroke-dasharray:4 "
    "4}.series1{stroke:#2463a8}.series2{stroke:#d9822b}.series3{stroke:#3b8f6b}"
    ".dot{stroke:none}.dot.series0{fill:#9aa3ab}.dot.series1{fill:#2463a8}.dot.series2{fill:#"
    "d9822b}.dot.series3{fill:#3b8f6b}"
    ".data{fill:#3b8f6b}.compute{fill:#2463a8}.exposed{fill:#d9822b}.update{fill:#8a5fb0}.other{"
    "fill:#9aa3ab}";

inline std::string key(const std::string& css, double x, double y, const std::string& text) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"10\" height=\"10\"/><text x=\"{}\" "
      "y=\"{}\">{}</text>",
      css, x, y, x + 15, y + 9, text);
}

// Tokens a second against one rank's, for the runs that differ in ranks alone.
inline std::string speed_up(const std::vector<ScalingRun>& runs, const std::string& kind,
                            double x) {
  ReportCurve curve{kind + " scaling", "ranks", {{"perfect", {}, {}}}};
  std::string legend =
      fmt::format("<text class=\"title\" x=\"{}\" y=\"18\">{} scaling: speed-up over ranks</text>",
                  x + 50, kind);
  double last = 1;
  for (const ScalingRun& run : runs)
    if (run.kind == kind) last = std::max<double>(last, run.ranks / base_of(runs, run).ranks);
  curve.series[0].x = curve.series[0].y = {1, last};
  std::size_t number = 1;
  for (const char* place : {"machine", "nodes", "cluster"}) {
    ReportSeries series{place, {}, {}};
    for (const ScalingRun& run : runs)
      if (run.kind == kind && run.place == place && run.wire == runs.front().wire &&
          run.layers == runs.front().layers) {
        series.x.push_back(static_cast<double>(run.ranks) / base_of(runs, run).ranks);
        series.y.push_back(series.x.back() * efficiency(runs, run));
      }
    if (series.x.empty()) continue;
    curve.series.push_back(std::move(series));
    legend += key(fmt::format("dot series{}", number), x + 60,
                  16 + 16 * static_cast<double>(number), place);
    ++number;
  }
  if (number == 1) return "";
  std::string chart = curve_svg(curve);
  return fmt::format("<svg x=\"{}\" y=\"14\" width=\"460\" height=\"230\" {}", x, chart.substr(5)) +
         legend;
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
      "height=\"{0}\"><style>{1}</style>"
      "<rect width=\"940\" height=\"{0}\" fill=\"#fff\"/>\n",
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
                       escape_html(label_of(run)));
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
