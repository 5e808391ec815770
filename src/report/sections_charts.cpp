// Scores and confusion.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpuhpc/report/html.hpp"
#include "gpuhpc/report/svg.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "page.hpp"

namespace gpuhpc::page {
namespace {

std::int64_t total(const ScoreHistogram& histogram) {
  return std::accumulate(histogram.correct.begin(), histogram.correct.end(), std::int64_t{0}) +
         std::accumulate(histogram.wrong.begin(), histogram.wrong.end(), std::int64_t{0});
}

std::string histogram_figure(const ScoreHistogram& histogram, bool with_gold,
                             const std::string& title) {
  if (total(histogram) == 0) return "";
  const std::string legend =
      with_gold ? "<div class=\"legend\"><span><i class=\"k-right\"></i>right</span><span><i "
                  "class=\"k-wrong\"></i>wrong</span></div>"
                : "";
  return fmt::format("<figure><figcaption>{}</figcaption>{}{}</figure>", title, legend,
                     histogram_svg(histogram, with_gold, title));
}

constexpr std::size_t classes_shown = 10;

// The most confused classes of a group, in the order of the group.
std::vector<std::size_t> most_confused(const SiblingConfusion& group) {
  const std::size_t k = group.classes.size();
  std::vector<double> trouble(k, 0);
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < k; ++j)
      if (i != j) {
        trouble[i] += group.counts[i * (k + 1) + j];
        trouble[j] += group.counts[i * (k + 1) + j];
      }
  std::vector<std::size_t> order(k);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return trouble[a] > trouble[b]; });
  order.resize(std::min(k, classes_shown));
  std::sort(order.begin(), order.end());
  return order;
}

enum class Cell { found, sibling, outside };

std::string heat_cell(double count, double row_sum, Cell cell, const std::string& tip) {
  const double share = row_sum > 0 ? count / row_sum : 0;
  const bool outside = cell == Cell::outside;
  const std::string name = fmt::format("{}{}",
                                       cell == Cell::found ? "diag"
                                       : outside           ? "out"
                                                           : "",
                                       count == 0 ? " zero" : "");
  // A square root keeps small shares visible.
  const double strength = std::sqrt(share);
  const std::string style = count == 0
                                ? ""
                                : fmt::format(" style=\"background:rgb(var(--{})/{:.2f}){}\"",
                                              outside ? "heat-out" : "heat", strength,
                                              strength > 0.6 ? ";color:var(--heat-ink)" : "");
  const std::string text = count == 0      ? "\xC2\xB7"
                           : share < 0.005 ? ""
                                           : fmt::format("{:.0f}", 100 * share);
  return fmt::format("<td class=\"{}\"{} title=\"{}\">{}</td>", name, style, tip, text);
}

std::string confusion_table(const ReportModel& model, const SiblingConfusion& group) {
  const std::size_t k = group.classes.size();
  const std::vector<std::size_t> shown = most_confused(group);
  const auto title = [&](std::size_t i) {
    return escape_html(model.classes[group.classes[i]].title);
  };
  std::string head = "<th></th>";
  for (const std::size_t j : shown)
    head += fmt::format("<th scope=\"col\" title=\"{0}\"><span>{0}</span></th>", title(j));
  const bool cut = shown.size() < k;
  if (cut) head += "<th scope=\"col\"><span>other siblings</span></th>";
  head += "<th scope=\"col\"><span>none of them</span></th>";
  std::string body;
  for (const std::size_t i : shown) {
    const double* const row = group.counts.data() + i * (k + 1);
    const double sum = std::accumulate(row, row + k + 1, 0.0);
    double rest = std::accumulate(row, row + k, 0.0);
    std::string cells;
    for (const std::size_t j : shown) {
      rest -= row[j];
      cells += heat_cell(row[j], sum, i == j ? Cell::found : Cell::sibling,
                         fmt::format("{:.4g} of {:.0f} documents of {} predicted as {}", row[j],
                                     sum, title(i), title(j)));
    }
    if (cut)
      cells += heat_cell(rest < 1e-9 ? 0 : rest, sum, Cell::outside,
                         fmt::format("{:.4g} of {:.0f} documents", std::max(0.0, rest), sum));
    cells += heat_cell(row[k], sum, Cell::outside,
                       fmt::format("{:.4g} of {:.0f} documents", row[k], sum));
    body += fmt::format("<tr><th scope=\"row\" title=\"{0}: {2:.0f} documents\">{0}</th>{1}</tr>",
                        title(i), cells, sum);
  }
  const std::string name =
      group.parent < 0 ? "roots" : "in " + escape_html(model.classes[group.parent].title);
  return fmt::format(
      "<figure><figcaption>{} <small class=\"also\">{} taken for a "
      "sibling</small></figcaption><div class=\"wide\"><table "
      "class=\"heat\"><thead><tr>{}</tr></thead>"
      "<tbody>{}</tbody></table></div></figure>",
      name, format_count(std::llround(group.confused)), head, body);
}

}  // namespace

std::string histograms(const ReportModel& model) {
  if (!model.histograms) return "";
  const bool gold = model.histograms->with_gold;
  const std::string body =
      histogram_figure(model.histograms->best, gold, "Best class of each document") +
      histogram_figure(model.histograms->predicted, gold, "All predicted classes");
  return section("scores", "Scores",
                 gold ? "How sure the predictions are, and how often they are right at that."
                      : "How sure the predictions are.",
                 body.empty() ? "" : "<div class=\"charts\">" + body + "</div>");
}

std::string confusion(const ReportModel& model) {
  std::string body;
  for (const SiblingConfusion& group : model.confusion) body += confusion_table(model, group);
  return section("confusion", "Confusion between siblings",
                 "Where documents of a gold class (row) went, in percent of the row: found "
                 "(diagonal), taken for a sibling, or "
                 "given none of them. The worst groups first.",
                 body.empty() ? "" : "<div class=\"groups\">" + body + "</div>");
}

}  // namespace gpuhpc::page
