#include "gpuhpc/report/page.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Page, HostileTextsCannotLeaveTheirData) {
  const std::string hostile =
      "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'& \\u003c {{page}} "
      "\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAE\x01\x7F";
  const Json report = {{"title", hostile},
                       {"warnings", {hostile}},
                       {"classes", {{{"title", hostile}, {hostile, hostile}}}}};
  const std::string data = report_data(report);
  for (const char c : data) ASSERT_TRUE(c >= 0x20 && c < 0x7F) << static_cast<int>(c);
  EXPECT_EQ(data.find_first_of("<>&"), data.npos);
  EXPECT_EQ(Json::parse(data), report) << "not one character is lost";
  const std::string page = render_page(data), harmless = render_page("{}");
  ASSERT_EQ(count(page, data), 1u);
  EXPECT_EQ(page.substr(0, page.find(data)) + "{}" + page.substr(page.find(data) + data.size()),
            harmless)
      << "the rest of the page does not depend on the data";
}

TEST(Page, WhatIsNoNumberOrNoTextIsSaid) {
  EXPECT_EQ(report_data({{"a", NAN}, {"b", -INFINITY}, {"c", .25}}),
            R"({"a":null,"b":null,"c":0.25})");
  EXPECT_EQ(report_data("gr\xC3\xBC\xC3\x9F \xC3("), R"("gr\u00fc\u00df \ufffd(")");
}

TEST(Page, LoadsNothingAndMakesNoMarkupOfTexts) {
  const std::string page = render_page("{}");
  EXPECT_NE(page.find("default-src 'none'"), page.npos);
  EXPECT_NE(page.find("require-trusted-types-for 'script'"), page.npos);
  for (const char* part : {"https:", "src=", "@import", "url(", "<link", "<iframe", "fetch(",
                           "import(", "innerHTML", "outerHTML", "insertAdjacentHTML",
                           "document.write", "DOMParser", "eval(", "Function(", "{{"})
    EXPECT_EQ(count(page, part), 0u) << part;
  EXPECT_EQ(count(page, "http:"), 2u) << "the names of the HTML and SVG elements";
  EXPECT_EQ(count(page, "</script>"), 3u);
}

TEST(Page, HoldsExactlyTheDataBesideIt) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gpuhpc-page-" + std::to_string(::getpid()));
  create_folder(folder);
  const Json report = {{"title", "<b> \xC3\xBC"}};
  write_report(folder / "report.html", report);
  const std::string data = read_text_file(folder / "report.json");
  EXPECT_EQ(read_text_file(folder / "report.html"),
            render_page(std::string_view(data).substr(0, data.size() - 1)));
  EXPECT_EQ(Json::parse(data), report);
  std::filesystem::remove_all(folder);
}

TEST(Page, MetricsCarryTheirTitlesAndWhatIsMissing) {
  const Json metrics = metrics_data({{"example_f1", .5, .4, .7}, {"mrr_raw", {}, {}, {}}});
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].at("title"), "Example-F1");
  EXPECT_EQ(metrics[0].at("high"), .7);
  EXPECT_TRUE(metrics[0].at("headline"));
  EXPECT_TRUE(metrics[1].at("value").is_null());
}

TEST(Page, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(shortened("short", 5), "short");
  EXPECT_EQ(shortened("ab\xE6\x96\x87\xE6\x96\x87", 7), "ab\xE6\x96\x87\xC2\xA0\xE2\x80\xA6");
  EXPECT_EQ(shortened("ab\xE6\x96\x87\xE6\x96\x87", 4), "ab\xC2\xA0\xE2\x80\xA6");
}

}  // namespace
}  // namespace gpuhpc
