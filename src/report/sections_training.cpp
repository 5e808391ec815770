// Training curves, where the time of a step went, and what each rank did.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "gpuhpc/report/html.hpp"
#include "gpuhpc/report/svg.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "gpuhpc/report/training.hpp"
#include "page.hpp"

namespace gpuhpc::page {
namespace {

std::string legend_of(const ReportCurve& curve) {
  if (curve.series.size() < 2) return "";
  std::string legend;
  for (std::size_t s = 0; s < curve.series.size(); ++s)
    if (!curve.series[s].x.empty())
      legend += fmt::format("<span><i class=\"k-{}\"></i>{}</span>", s % 8,
                            escape_html(curve.series[s].name));
  return "<div class=\"legend\">" + legend + "</div>";
}

struct PartText {
  const char *name, *title;
};
constexpr PartText part_texts[] = {{"data", "data: batches made ready"},
                                   {"compute", "compute: forward and backward"},
                                   {"sum", "sum over ranks, what compute does not hide"},
                                   {"update", "agreement and update"},
                                   {"other", "other"}};

const ReportPart* find_part(const ReportSplit& split, const std::string& name) {
  const auto found = std::ranges::find(split.parts, name, &ReportPart::name);
  return found == split.parts.end() ? nullptr : &*found;
}

// Seconds of a whole training, part by part.
std::vector<double> totals(const ReportSplit& split) {
  std::vector<double> sums;
  for (const ReportPart& part : split.parts)
    sums.push_back(std::accumulate(part.seconds.begin(), part.seconds.end(), 0.0));
  return sums;
}

double all_of(const std::vector<double>& sums) {
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::string milliseconds(double seconds, std::size_t steps) {
  const double ms = 1000 * seconds / static_cast<double>(steps);
  return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 1000 ? 1 : 0);
}

std::string split_legend(const std::vector<ReportSplit>& splits) {
  std::string legend;
  for (const PartText& text : part_texts)
    if (std::ranges::any_of(splits, [&](const ReportSplit& split) {
          return find_part(split, text.name) != nullptr;
        }))
      legend += fmt::format("<span><i class=\"p-{}\"></i>{}</span>", text.name, text.title);
  return "<div class=\"legend\">" + legend + "</div>";
}

std::string split_of_one(const ReportSplit& split) {
  const std::vector<double> sums = totals(split), shares = percent_shares(sums);
  std::string rows;
  const auto row = [&](const std::string& key, const std::string& name, double seconds,
                       double share) {
    rows += fmt::format(
        "<tr><td>{}{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f}</td><td class=\"n\">{:.1f} "
        "%</td></tr>",
        key, name, milliseconds(seconds, split.steps.size()), seconds, share);
  };
  for (std::size_t p = 0; p < split.parts.size(); ++p)
    row(fmt::format("<i class=\"key p-{0}\"></i>", split.parts[p].name), split.parts[p].name,
        sums[p], shares[p]);
  row("", "a step", all_of(sums), 100);
  return fmt::format(
      "<div class=\"charts\"><figure><figcaption>Milliseconds a "
      "step</figcaption>{}{}</figure><figure><figcaption>Mean of {} steps</figcaption>"
      "<div class=\"wide\"><table class=\"total\"><thead><tr><th>part</th><th class=\"n\">ms a "
      "step</th><th class=\"n\">seconds</th><th class=\"n\">share</th></tr></thead>"
      "<tbody>{}</tbody></table></div></figure></div>",
      split_legend({split}), split_svg(split), format_count(std::ssize(split.steps)), rows);
}

std::string split_of_several(const std::vector<ReportSplit>& splits) {
  double longest = 0;
  for (const ReportSplit& split : splits)
    longest = std::max(longest, all_of(totals(split)) / static_cast<double>(split.steps.size()));
  std::string bars, head = "<th>ms a step</th>", rows;
  for (const ReportSplit& split : splits) {
    const std::vector<double> sums = totals(split);
    std::string stack;
    for (std::size_t p = 0; p < sums.size(); ++p)
      stack += fmt::format("<b class=\"p-{}\" style=\"width:{:.2f}%\"></b>", split.parts[p].name,
                           100 * sums[p] / static_cast<double>(split.steps.size()) / longest);
    bars += fmt::format(
        "<div class=\"trow\"><div>{}</div><div class=\"bar stack\">{}</div><div class=\"val\">{} "
        "ms</div></div>",
        escape_html(split.run), stack, milliseconds(all_of(sums), split.steps.size()));
    head += fmt::format("<th class=\"n\">{}</th>", escape_html(split.run));
  }
  const auto cell = [](const std::string& text, double share) {
    return fmt::format("<td class=\"n\">{} <small>{:.1f} %</small></td>", text, share);
  };
  for (const PartText& text : part_texts) {
    std::string cells;
    bool any = false;
    for (const ReportSplit& split : splits) {
      const ReportPart* part = find_part(split, text.name);
      any = any || part != nullptr;
      const std::vector<double> sums = totals(split);
      const auto at = static_cast<std::size_t>(part != nullptr ? part - split.parts.data() : 0);
      cells += part == nullptr
                   ? "<td></td>"
                   : cell(milliseconds(sums[at], split.steps.size()), percent_shares(sums)[at]);
    }
    if (any)
      rows += fmt::format("<tr><td><i class=\"key p-{0}\"></i>{0}</td>{1}</tr>", text.name, cells);
  }
  rows += "<tr><td>a step</td>";
  for (const ReportSplit& split : splits)
    rows += cell(milliseconds(all_of(totals(split)), split.steps.size()), 100);
  return fmt::format(
      "{}<div class=\"rows\">{}</div><div class=\"wide\"><table class=\"snug "
      "total\"><thead><tr>{}</tr></thead><tbody>{}</tr></tbody></table></div>",
      split_legend(splits), bars, head, rows);
}

std::string memory(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 10240 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string rank_row(const ReportRank& rank, bool with_run) {
  const auto number = [](const std::string& text) { return "<td class=\"n\">" + text + "</td>"; };
  const bool slow = rank.times_slower > 1;
  std::string cells = with_run ? fmt::format("<td>{}</td>", escape_html(rank.run)) : "";
  cells += number(std::to_string(rank.rank)) +
           fmt::format(
               "<td>{}{}</td><td>{}</td>", escape_html(rank.host),
               slow ? fmt::format(" <em>slow: {:.1f} times as long a token</em>", rank.times_slower)
                    : "",
               escape_html(rank.device));
  cells += number(format_count(rank.steps)) + number(format_count(rank.tokens));
  for (const double seconds :
       {rank.data, rank.compute, rank.sum, rank.update, rank.other, rank.wall})
    cells += number(fmt::format("{:.1f}", seconds));
  return fmt::format("<tr{}>{}{}</tr>", slow ? " class=\"slow\"" : "", cells,
                     number(memory(rank.peak_memory)));
}

}  // namespace

std::string curves(const ReportModel& model) {
  std::string body;
  for (const ReportCurve& curve : model.curves) {
    const std::string svg = curve_svg(curve);
    if (!svg.empty())
      body += fmt::format("<figure><figcaption>{}</figcaption>{}{}</figure>",
                          escape_html(curve.title), legend_of(curve), svg);
  }
  return section("training", "Training",
                 model.runs.size() > 1
                     ? "Losses of the training, norms and tokens a second are means over the "
                       "twentieth of the run that ends at the point."
                     : "",
                 body.empty() ? "" : "<div class=\"charts\">" + body + "</div>");
}

std::string split(const ReportModel& model) {
  std::vector<ReportSplit> splits;
  std::ranges::copy_if(model.splits, std::back_inserter(splits),
                       [](const ReportSplit& one) { return all_of(totals(one)) > 0; });
  if (splits.empty()) return "";
  return section("steps", "Time of a step", "Where the time of the training steps went, on rank 0.",
                 splits.size() == 1 && model.runs.size() < 2 ? split_of_one(splits[0])
                                                             : split_of_several(splits));
}

std::string ranks(const ReportModel& model) {
  if (model.ranks.empty()) return "";
  const bool with_run = model.runs.size() > 1;
  std::string head = with_run ? "<th>run</th>" : "", rows;
  head += "<th class=\"n\">rank</th><th>host</th><th>device</th>";
  for (const char* title :
       {"steps", "tokens", "data", "compute", "sum", "update", "other", "in all", "peak memory"})
    head += fmt::format("<th class=\"n\">{}</th>", title);
  for (const ReportRank& rank : model.ranks) rows += rank_row(rank, with_run);
  return section(
      "ranks", "Ranks",
      "Seconds of the whole training on each rank. In a step all wait for the slowest: its own sum "
      "is short, that of the others long.",
      fmt::format("<div class=\"{}\"><table "
                  "class=\"ranks\"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
                  model.ranks.size() > 32 ? "tall" : "wide", head, rows));
}

}  // namespace gpuhpc::page
