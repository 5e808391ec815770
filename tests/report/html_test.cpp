#include "gpuhpc/report/html.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "example.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// The tags of the page outside style and script, in order; fails on one that does not nest.
std::vector<std::string> check_nesting(std::string html) {
  for (const std::string name : {"style", "script"}) {
    const std::size_t first = html.find("<" + name + ">"),
                      last = html.find("</" + name + ">", first);
    html.erase(first, last - first + name.size() + 3);
  }
  const std::set<std::string> empty = {"meta",   "input",    "line",    "rect",
                                       "circle", "polyline", "!doctype"};
  std::vector<std::string> open, all;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    const bool closes = html[at + 1] == '/';
    const std::size_t first = at + (closes ? 2 : 1), last = html.find_first_of(" />", first);
    const std::string name = html.substr(first, last - first);
    for (bool quoted = false; at < html.size() && (quoted || html[at] != '>'); ++at)
      quoted = quoted != (html[at] == '"');
    if (closes) {
      if (open.empty() || open.back() != name) {
        ADD_FAILURE() << "</" << name << "> closes <" << (open.empty() ? "nothing" : open.back())
                      << ">";
        return all;
      }
      open.pop_back();
    } else {
      all.push_back(name);
      if (!empty.contains(name)) open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back() << " is not closed";
  return all;
}

TEST(Html, EscapesMarkupControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(escape_html("a<b>&\"'\n\tc"), "a&lt;b&gt;&amp;&quot;&#39;\n\tc");
  EXPECT_EQ(escape_html(std::string_view("\0\x1b", 2)), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xC3(\xE2\x82"), "\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
  EXPECT_EQ(escape_html(""), "");
}

TEST(Html, HostileTextsStayText) {
  const std::string harmless = render_html(test::example_model("plain")),
                    page = render_html(test::example_model(test::hostile));
  EXPECT_EQ(check_nesting(page), check_nesting(harmless));  // not one element more
  EXPECT_EQ(count(page, "<script>"), 1u);
  EXPECT_EQ(count(page, "<img"), 0u);
  EXPECT_EQ(find_invalid_utf8(page), std::string::npos);
  EXPECT_GE(count(page, "&lt;/script&gt;"), 12u);  // it does stand everywhere
}

TEST(Html, LoadsNothing) {
  const std::string page = render_html(test::example_model("plain"));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* const part : {"http:", "https:", "src=", "@import", "url(", "<link", "<iframe"})
    EXPECT_EQ(count(page, part), 0u) << part;
  for (const char* const id : {"metrics", "runs", "examples", "taxonomy", "scores", "confusion",
                               "levels", "classes", "training", "steps", "ranks", "time", "run"}) {
    EXPECT_EQ(count(page, std::string("<section id=\"") + id + "\""), 1u) << id;
    EXPECT_EQ(count(page, std::string("href=\"#") + id + "\""), 1u) << id;
  }
}

TEST(Html, EmptyPartsLeaveTheirSectionsOut) {
  ReportModel model;
  model.title = "nothing yet";
  const std::string page = render_html(model);
  check_nesting(page);
  EXPECT_EQ(count(page, "<section"), 0u);
  EXPECT_EQ(count(page, "<a href"), 0u);
}

TEST(Html, WithoutGoldNothingSpeaksOfGold) {
  ReportModel model = test::example_model("plain");
  model.has_gold = false;
  model.evaluation.reset();
  model.runs.clear();
  model.confusion.clear();
  for (ReportClass& c : model.classes) c.gold.reset();
  model.histograms->with_gold = false;
  model.histograms->best.wrong.fill(0);
  model.examples[0].missed.clear();
  const std::string page = render_html(model);
  check_nesting(page);
  const std::string body = page.substr(page.find("<body>"));
  EXPECT_EQ(count(body, "gold"), 0u);
  EXPECT_EQ(count(body, "wrong"), 0u);
  EXPECT_NE(body.find("labels a document"), std::string::npos);
}

TEST(Html, AClassWithTwoParentsIsNamedUnderBoth) {
  ReportModel model = test::example_model("plain");
  model.examples.clear();
  const std::string page = render_html(model);
  EXPECT_EQ(count(page, "also in editors"), 1u);
  EXPECT_EQ(count(page, "also in games"), 1u);
}

TEST(Html, LongDocumentsAreCutBetweenCharacters) {
  ReportModel model = test::example_model("plain");
  model.examples[0].text.clear();
  for (int i = 0; i < 5000; ++i) model.examples[0].text += "\xE6\x96\x87";
  const std::string page = render_html(model);
  EXPECT_EQ(find_invalid_utf8(page), std::string::npos);
  EXPECT_EQ(count(page, "\xEF\xBF\xBD"), 0u);
  EXPECT_LE(count(page, "\xE6\x96\x87"), 1440u);
  EXPECT_NE(page.find("\xE6\x96\x87\xC2\xA0\xE2\x80\xA6"), std::string::npos);
}

}  // namespace
}  // namespace gpuhpc
