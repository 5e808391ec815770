#include "gpuhpc/report/html.hpp"

#include <fmt/format.h>

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "page.hpp"

namespace gpuhpc {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += replacement;
        } else {
          out += c;
        }
    }
  }
}

struct Part {
  std::string_view id, title, body;
};

std::string navigation(const std::vector<Part>& parts) {
  std::string links;
  for (const Part& part : parts)
    if (!part.body.empty()) links += fmt::format("<a href=\"#{}\">{}</a>", part.id, part.title);
  return "<nav>" + links + "</nav>";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t bad = find_invalid_utf8(text); bad != std::string_view::npos;
       bad = find_invalid_utf8(text)) {
    append_escaped(out, text.substr(0, bad));
    out += replacement;
    text.remove_prefix(bad + 1);
  }
  append_escaped(out, text);
  return out;
}

std::string render_html(const ReportModel& model) {
  const std::string summary = page::summary(model), facts = page::facts(model),
                    stages =
                        model.runs.size() > 1 ? page::stages_compared(model) : page::stages(model),
                    split = page::split(model), ranks = page::ranks(model),
                    figures = page::figures(model), comparison = page::comparison(model),
                    taxonomy = page::taxonomy(model), histograms = page::histograms(model),
                    confusion = page::confusion(model), curves = page::curves(model),
                    levels = page::levels(model), classes = page::classes(model),
                    examples = page::examples(model);
  const std::vector<Part> parts = {{"metrics", "Metrics", figures},
                                   {"runs", "Runs", comparison},
                                   {"taxonomy", "Taxonomy", taxonomy},
                                   {"scores", "Scores", histograms},
                                   {"confusion", "Confusion", confusion},
                                   {"levels", "Levels", levels},
                                   {"classes", "Classes", classes},
                                   {"examples", "Examples", examples},
                                   {"training", "Training", curves},
                                   {"steps", "Steps", split},
                                   {"ranks", "Ranks", ranks},
                                   {"time", "Time", stages},
                                   {"run", "Run", facts}};
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      // Whatever a document says, the page loads nothing.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src "
      "'unsafe-inline'\">"
      "<meta name=\"color-scheme\" content=\"light dark\">";
  html += fmt::format("<title>{}</title><style>{}</style></head>\n<body>", escape_html(model.title),
                      page::style());
  html += fmt::format("<header><p class=\"brand\">gpuhpc report</p><h1>{}</h1>{}</header>{}<main>",
                      escape_html(model.title), summary, navigation(parts));
  for (const Part& part : parts) html += part.body;
  return html + fmt::format("</main><script>{}</script></body></html>\n", page::script());
}

void write_report(const std::filesystem::path& path, const ReportModel& model) {
  write_text_file(path, render_html(model));
}

}  // namespace gpuhpc
