// Documents with their predicted paths, and gold when it is known.
#include <fmt/format.h>

#include "gpuhpc/report/html.hpp"
#include "page.hpp"

namespace gpuhpc::page {
namespace {

constexpr std::size_t text_shown = 320, text_kept = 4000;  // bytes: at sight, and after a click

// Where to cut at most `most` bytes: between two characters, at a blank when one is near.
std::size_t cut_at(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const std::size_t blank = text.rfind(' ', end);
  return blank != std::string_view::npos && blank + 40 > end ? blank : end;
}

std::string text_html(std::string_view text) {
  constexpr std::string_view dots = "\xC2\xA0\xE2\x80\xA6";
  const std::size_t end = cut_at(text, text_shown);
  std::string html = fmt::format("<p dir=\"auto\">{}{}</p>", escape_html(text.substr(0, end)),
                                 end < text.size() ? dots : "");
  if (end == text.size()) return html;
  const std::string_view rest = text.substr(end);
  const std::size_t last = cut_at(rest, text_kept);
  return html +
         fmt::format(
             "<details class=\"more\"><summary>more</summary><p dir=\"auto\">{}{}</p></details>",
             escape_html(rest.substr(0, last)), last < rest.size() ? dots : "");
}

std::string path_html(const std::vector<ReportStep>& path, bool has_gold, bool missed) {
  std::string html;
  for (const ReportStep& step : path) {
    if (!html.empty()) html += " <em>\xE2\x80\xBA</em> ";
    const bool counts = missed ? step.gold && !step.predicted : step.predicted;
    const std::string title = fmt::format("<bdi>{}</bdi>", escape_html(step.title));
    if (!counts) {
      html += "<em>" + title + "</em>";
    } else if (!missed && has_gold && !step.gold) {
      html += "<span class=\"bad\" title=\"not in gold\">" + title + "</span>";
    } else {
      html += title;
    }
  }
  return html;
}

std::string item(const char* name, const char* mark, const char* spoken, const std::string& path,
                 const std::string& score) {
  const std::string sign =
      *mark ? fmt::format(
                  "<span class=\"m {}\" role=\"img\" aria-label=\"{}\" title=\"{}\">{}</span>",
                  name, spoken, spoken, mark)
            : "";
  return fmt::format("<li>{}<span class=\"path\">{}</span>{}</li>", sign, path, score);
}

std::string example_html(const ReportExample& example, bool has_gold) {
  std::string items;
  for (std::size_t i = 0; i < example.predicted.size(); ++i) {
    const auto& path = example.predicted[i];
    const bool right = !path.empty() && path.back().gold;
    const std::string score =
        i < example.scores.size()
            ? fmt::format("<span class=\"sc\">{:.2f}</span>", example.scores[i])
            : "";
    items += item(right ? "ok" : "no",
                  !has_gold ? ""
                  : right   ? "\xE2\x9C\x93"
                            : "\xE2\x9C\x97",
                  right ? "right" : "wrong", path_html(path, has_gold, false), score);
  }
  if (example.predicted.empty())
    items += item("miss", "\xE2\x80\x93", "nothing", "<em>nothing predicted</em>", "");
  for (const auto& path : example.missed)
    items += item("miss", "+", "missed", path_html(path, has_gold, true),
                  "<span class=\"sc\">missed</span>");
  return fmt::format(
      "<article class=\"doc\"><span class=\"id\"><bdi>{}</bdi></span>{}<ul>{}</ul></article>",
      escape_html(example.id), text_html(example.text), items);
}

}  // namespace

std::string examples(const ReportModel& model) {
  std::string body;
  for (const ReportExample& example : model.examples) body += example_html(example, model.has_gold);
  const std::string lead = model.has_gold
                               ? fmt::format(
                                     "{} documents drawn at random, with their predicted paths: "
                                     "\xE2\x9C\x93 right, \xE2\x9C\x97 wrong, + "
                                     "gold that was missed. "
                                     "The number is the score of the last class.",
                                     model.examples.size())
                               : fmt::format(
                                     "{} documents drawn at random, with their predicted paths and "
                                     "the score of the last class.",
                                     model.examples.size());
  return section("examples", "Examples", lead,
                 body.empty() ? "" : "<div class=\"docs\">" + body + "</div>");
}

}  // namespace gpuhpc::page
