// The taxonomy as a tree, and the tables by level and by class.
#include <fmt/format.h>

#include <algorithm>

#include "gpuhpc/report/html.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "page.hpp"

namespace gpuhpc::page {
namespace {

class Tree {
 public:
  explicit Tree(const ReportModel& model) : model_(model), shown_(model.classes.size(), false) {}

  std::string render() {
    std::vector<std::int32_t> roots;
    for (std::size_t c = 0; c < model_.classes.size(); ++c)
      if (model_.classes[c].parents.empty()) roots.push_back(static_cast<std::int32_t>(c));
    const std::string html = nodes(roots, -1);
    return html.empty() ? "" : "<div class=\"tree\">" + html + "</div>";
  }

 private:
  // Bars compare siblings: the longest of a group fills its column.
  static std::string bars(const ReportClass& c, std::int64_t longest) {
    const auto width = [&](std::int64_t count) {
      return 100.0 * static_cast<double>(count) / static_cast<double>(longest);
    };
    const std::string predicted =
        fmt::format("<b style=\"width:{:.1f}%\"></b>", width(c.predicted));
    if (!c.gold) return "<span class=\"pair\">" + predicted + "</span>";
    return fmt::format("<span class=\"pair two\">{}<u style=\"width:{:.1f}%\"></u></span>",
                       predicted, width(*c.gold));
  }

  static std::string line(const ReportClass& c, std::int64_t longest, const std::string& note) {
    const std::string gold =
        c.gold ? fmt::format(" <small>/ {}</small>", format_count(*c.gold)) : "";
    return fmt::format(
        "<span class=\"node{}\"><span class=\"mark\"></span><span><bdi>{}</bdi>{}</span>{}<span "
        "class=\"counts\">{}{}</span></span>",
        c.gold ? "" : " single", escape_html(c.title), note, bars(c, longest),
        format_count(c.predicted), gold);
  }

  std::string nodes(const std::vector<std::int32_t>& siblings, std::int32_t under) {
    std::int64_t longest = 1;
    for (const std::int32_t id : siblings)
      longest =
          std::max({longest, model_.classes[id].predicted, model_.classes[id].gold.value_or(0)});
    std::string html;
    for (const std::int32_t id : siblings) html += node(id, under, longest);
    return html;
  }

  // A class with several parents is unfolded under the first one that shows it; elsewhere it is one
  // line.
  std::string node(std::int32_t id, std::int32_t under, std::int64_t longest) {
    const ReportClass& c = model_.classes[id];
    std::string note;
    for (const std::int32_t parent : c.parents)
      if (parent != under)
        note += fmt::format(" <span class=\"also\">also in {}</span>",
                            escape_html(model_.classes[parent].title));
    if (c.children.empty() || shown_[id])
      return fmt::format("<div class=\"leaf\">{}</div>", line(c, longest, note));
    shown_[id] = true;
    return fmt::format("<details><summary>{}</summary>{}</details>", line(c, longest, note),
                       nodes(c.children, id));
  }

  const ReportModel& model_;
  std::vector<bool> shown_;
};

std::string number_cell(double value, int digits) {
  return fmt::format("<td class=\"n\" data-v=\"{}\">{}</td>", value,
                     digits > 0 ? fmt::format("{:.{}f}", value, digits)
                                : format_count(static_cast<std::int64_t>(value)));
}

std::string count_cells(const PairCounts& counts) {
  return number_cell(static_cast<double>(counts.gold), 0) +
         number_cell(static_cast<double>(counts.predicted), 0) +
         number_cell(static_cast<double>(counts.correct), 0) + number_cell(counts.precision(), 3) +
         number_cell(counts.recall(), 3) + number_cell(counts.f1(), 3);
}

std::string table(const std::string& id, const std::string& first, const std::string& rows,
                  const char* more = "") {
  std::string head = fmt::format("<th><button type=\"button\">{}</button></th>", first);
  for (const char* const title : {"gold", "predicted", "right", "precision", "recall", "F1"})
    head += fmt::format("<th class=\"n\"><button type=\"button\">{}</button></th>", title);
  return fmt::format(
      "<table class=\"sortable{}\" id=\"{}\"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
      more, id, head, rows);
}

}  // namespace

std::string taxonomy(const ReportModel& model) {
  const std::string lead =
      model.has_gold
          ? "Documents in each class: predicted (blue) / gold (grey); bars compare siblings. Click "
            "a class to unfold it."
          : "Documents predicted in each class; bars compare siblings. Click a class to unfold it.";
  return section("taxonomy", "Taxonomy", lead, Tree(model).render());
}

std::string levels(const ReportModel& model) {
  if (!model.evaluation || model.evaluation->levels.empty()) return "";
  std::string rows;
  for (std::size_t k = 0; k < model.evaluation->levels.size(); ++k)
    rows += fmt::format("<tr><td>{}</td>{}</tr>", k + 1, count_cells(model.evaluation->levels[k]));
  return section("levels", "By level", "Level 1 holds the roots. Document-class pairs.",
                 "<div class=\"wide\">" + table("level-table", "level", rows, " snug") + "</div>");
}

std::string classes(const ReportModel& model) {
  if (!model.evaluation || model.evaluation->classes.empty()) return "";
  std::string rows;
  const auto& counts = model.evaluation->classes;
  for (std::size_t c = 0; c < counts.size() && c < model.classes.size(); ++c) {
    std::string path;
    for (const std::int32_t parent : model.classes[c].parents)
      path += (path.empty() ? "" : ", ") + model.classes[parent].title;
    rows += fmt::format(
        "<tr><td><bdi>{}</bdi>{}</td>{}</tr>", escape_html(model.classes[c].title),
        path.empty() ? "" : fmt::format(" <small class=\"also\">in {}</small>", escape_html(path)),
        count_cells(counts[c]));
  }
  const std::string filter =
      "<input class=\"filter\" type=\"search\" placeholder=\"find a class\" aria-label=\"find a "
      "class\" data-for=\"class-table\">";
  return section("classes", "By class", "Click a column to sort by it.",
                 filter + "<div class=\"tall\">" + table("class-table", "class", rows) + "</div>");
}

}  // namespace gpuhpc::page
