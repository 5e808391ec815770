// What ran, how long it took, and how good it is.
#include <fmt/format.h>

#include <algorithm>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/report/html.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "page.hpp"

namespace gpuhpc::page {
namespace {

std::string tile(const std::string& title, const std::string& value, const std::string& below) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>",
                     escape_html(title), value, below);
}

// .535 as 0.535; an interval as "0.524 to 0.546".
std::string three(double value) { return fmt::format("{:.3f}", value); }

std::string seconds_text(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : format_duration(seconds);
}

std::string gold_tiles(const ReportModel& model) {
  std::string tiles;
  for (const Figure& figure : model.evaluation->figures) {
    if (!figure_is_headline(figure.name) || !figure.value) continue;
    tiles += tile(figure_title(figure.name), three(*figure.value),
                  figure.low ? three(*figure.low) + " to " + three(*figure.high) : "");
  }
  return tiles;
}

std::string plain_tiles(const ReportModel& model) {
  if (model.documents == 0) return "";  // nothing labelled yet, or several runs
  std::int64_t labels = 0, used = 0;
  for (const ReportClass& c : model.classes) {
    labels += c.predicted;
    used += c.predicted > 0;
  }
  std::string tiles = tile("documents", format_count(model.documents), "labelled");
  if (!model.classes.empty())
    tiles +=
        tile("classes used", format_count(used),
             fmt::format("of {}", format_count(static_cast<std::int64_t>(model.classes.size()))));
  if (model.documents > 0 && !model.classes.empty())
    tiles += tile(
        "labels a document",
        fmt::format("{:.2f}", static_cast<double>(labels) / static_cast<double>(model.documents)),
        "mean");
  return tiles;
}

// Position on the 0..1 axis in percent.
double percent(double value) { return 100 * std::clamp(value, 0.0, 1.0); }

std::string axis_marks() {
  std::string marks;
  for (const int at : {0, 25, 50, 75, 100}) marks += fmt::format("<i style=\"left:{}%\"></i>", at);
  return marks;
}

std::string figure_row(const Figure& figure) {
  std::string track = axis_marks(), value = "not available";
  if (figure.value) {
    if (figure.low)
      track += fmt::format("<span class=\"whisker\" style=\"left:{:.2f}%;width:{:.2f}%\"></span>",
                           percent(*figure.low), percent(*figure.high) - percent(*figure.low));
    track +=
        fmt::format("<span class=\"point\" style=\"left:{:.2f}%\"></span>", percent(*figure.value));
    value = three(*figure.value);
    if (figure.low)
      value += fmt::format(" <small>{} to {}</small>", three(*figure.low), three(*figure.high));
  } else {
    value = "<small>needs scores</small>";
  }
  return fmt::format(
      "<div class=\"frow\"><div class=\"name\">{}<small>{}</small></div><div "
      "class=\"track\">{}</div><div "
      "class=\"val\">{}</div></div>",
      escape_html(figure_title(figure.name)), escape_html(figure_about(figure.name)), track, value);
}

std::string group_of(const std::string& name) {
  if (name.starts_with("example_") || name == "exact_match" || name == "hamming_loss")
    return "Label sets, document by document";
  if (name.starts_with("micro_") || name.starts_with("macro_")) return "Labels, over all documents";
  if (name.starts_with("hierarchical_") || name.starts_with("level_")) return "In the hierarchy";
  return "Ranking of the classes";
}

}  // namespace

std::string section(std::string_view id, std::string_view title, std::string_view lead,
                    const std::string& body) {
  if (body.empty()) return "";
  const std::string intro = lead.empty() ? "" : fmt::format("<p class=\"lead\">{}</p>", lead);
  return fmt::format("<section id=\"{}\"><h2>{}</h2>{}{}</section>\n", id, title, intro, body);
}

std::string summary(const ReportModel& model) {
  std::string html = model.evaluation ? gold_tiles(model) : plain_tiles(model);
  if (!html.empty()) html = "<dl class=\"tiles\">" + html + "</dl>";
  for (const std::string& warning : model.warnings)
    html += fmt::format("<p class=\"warn\" role=\"note\">{}</p>", escape_html(warning));
  return html;
}

std::string facts(const ReportModel& model) {
  std::string body;
  for (const auto& [name, value] : model.facts)
    body += fmt::format("<dt>{}</dt><dd>{}</dd>", escape_html(name), escape_html(value));
  if (!body.empty()) body = "<dl class=\"facts\">" + body + "</dl>";
  if (!model.config.empty())
    body += fmt::format(
        "<details class=\"config\"><summary>All options as resolved "
        "(config.ini)</summary><pre>{}</pre></details>",
        escape_html(model.config));
  return section("run", "What ran", "", body);
}

std::string stages(const ReportModel& model) {
  if (model.stages.empty()) return "";
  double longest = 0, total = 0;
  bool reused = false;
  for (const ReportStage& stage : model.stages) {
    longest = std::max(longest, stage.seconds);
    total += stage.seconds;
    reused = reused || stage.skipped;
  }
  std::string rows;
  for (const ReportStage& stage : model.stages)
    rows += fmt::format(
        "<div class=\"trow\"><div>{}</div><div class=\"bar\"><b{} "
        "style=\"width:{:.1f}%\"></b></div><div "
        "class=\"val\">{}{}</div></div>",
        escape_html(stage.name), stage.skipped ? " class=\"reused\"" : "",
        longest > 0 ? 100 * stage.seconds / longest : 0, seconds_text(stage.seconds),
        stage.skipped ? " (reused)" : "");
  const std::string lead = fmt::format(
      "{} in all, stage by stage.{}", format_duration(total),
      reused ? " A reused stage was finished in an earlier run; its bar is the time it took then."
             : "");
  return section("time", "Time", lead, "<div class=\"rows\">" + rows + "</div>");
}

std::string figures(const ReportModel& model) {
  if (!model.evaluation) return "";
  const Evaluation& evaluation = *model.evaluation;
  std::string rows =
      "<div class=\"frow\"><div></div><div class=\"scale\"><span style=\"left:0%\">0</span><span "
      "style=\"left:25%\">.25</span>"
      "<span style=\"left:50%\">.5</span><span style=\"left:75%\">.75</span><span "
      "style=\"left:100%\">1</span></div><div></div></div>";
  // Level figures stand beside the hierarchical ones, the groups in the order in which they first
  // occur.
  std::vector<std::string> groups;
  for (const Figure& figure : evaluation.figures)
    if (std::find(groups.begin(), groups.end(), group_of(figure.name)) == groups.end())
      groups.push_back(group_of(figure.name));
  for (const std::string& group : groups) {
    rows += fmt::format("<h3 class=\"group\">{}</h3>", group);
    for (const Figure& figure : evaluation.figures)
      if (group_of(figure.name) == group) rows += figure_row(figure);
  }
  std::string lead =
      fmt::format("Against the gold labels of {} documents.", format_count(evaluation.documents));
  if (evaluation.bootstrap_samples > 0)
    lead += fmt::format(
        " The dot is the value, the band around it the 95% interval from {} bootstrap resamples of "
        "the documents.",
        format_count(evaluation.bootstrap_samples));
  return section("metrics", "Metrics", lead, rows);
}

std::string comparison(const ReportModel& model) {
  if (model.runs.size() < 2) return "";
  std::string head = "<th>measure</th>", body;
  for (const ReportRun& run : model.runs)
    head += fmt::format("<th class=\"n\">{}</th>", escape_html(run.name));
  std::vector<Figure> rows;  // the first run may have none
  for (const ReportRun& run : model.runs)
    for (const Figure& figure : run.figures)
      if (std::ranges::find(rows, figure.name, &Figure::name) == rows.end()) rows.push_back(figure);
  for (const Figure& first : rows) {
    std::vector<std::optional<double>> values;
    std::optional<double> best;
    const bool small_is_good = first.name == "hamming_loss";
    for (const ReportRun& run : model.runs) {
      const auto found =
          std::find_if(run.figures.begin(), run.figures.end(),
                       [&](const Figure& figure) { return figure.name == first.name; });
      values.push_back(found == run.figures.end() ? std::nullopt : found->value);
      if (values.back() &&
          (!best || (small_is_good ? *values.back() < *best : *values.back() > *best)))
        best = values.back();
    }
    std::string cells;
    for (const auto& value : values)
      cells += fmt::format("<td class=\"n{}\">{}</td>", value && value == best ? " best" : "",
                           value ? three(*value) : "");
    if (best)
      body += fmt::format("<tr><td>{}</td>{}</tr>", escape_html(figure_title(first.name)), cells);
  }
  const auto table = [](const std::string& caption, const std::string& top,
                        const std::string& lines) {
    if (lines.empty()) return std::string();
    return fmt::format(
        "<figure><figcaption>{}</figcaption><div class=\"wide\"><table "
        "class=\"snug\"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></figure>",
        caption, top, lines);
  };
  std::string names = "<th>option</th>", differences;
  for (const ReportRun& run : model.runs)
    names += fmt::format("<th>{}</th>", escape_html(run.name));
  for (const ReportDifference& difference : model.differences) {
    differences += fmt::format("<tr><td>{}</td>", escape_html(difference.option));
    for (const std::string& value : difference.values)
      differences += fmt::format("<td>{}</td>", escape_html(value));
    differences += "</tr>";
  }
  return section("runs", "Runs side by side", "",
                 table("Metrics, the best of each row in bold", head, body) +
                     table("Options that differ", names, differences));
}

std::string stages_compared(const ReportModel& model) {
  std::vector<std::string> stages;  // in the order in which they first occur
  std::vector<double> totals(model.runs.size(), 0);
  std::string head = "<th>stage</th>", rows, sums;
  for (std::size_t r = 0; r < model.runs.size(); ++r) {
    head += fmt::format("<th class=\"n\">{}</th>", escape_html(model.runs[r].name));
    for (const ReportStage& stage : model.runs[r].stages) {
      totals[r] += stage.seconds;
      if (std::ranges::find(stages, stage.name) == stages.end()) stages.push_back(stage.name);
    }
    sums += fmt::format("<td class=\"n\">{}</td>", seconds_text(totals[r]));
  }
  if (stages.empty()) return "";
  for (const std::string& name : stages) {
    rows += fmt::format("<tr><td>{}</td>", escape_html(name));
    for (const ReportRun& run : model.runs) {
      const auto stage = std::ranges::find(run.stages, name, &ReportStage::name);
      rows += fmt::format("<td class=\"n\">{}</td>",
                          stage == run.stages.end() ? "" : seconds_text(stage->seconds));
    }
    rows += "</tr>";
  }
  return section("time", "Time", "Stage by stage.",
                 fmt::format("<div class=\"wide\"><table class=\"snug "
                             "total\"><thead><tr>{}</tr></thead><tbody>{}<tr><td>in "
                             "all</td>{}</tr></tbody></table></div>",
                             head, rows, sums));
}

}  // namespace gpuhpc::page
