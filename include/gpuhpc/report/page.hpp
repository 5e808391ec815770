#pragma once
// report.json, the data of one report, and report.html, the page that draws it: one file that loads
// nothing, light and dark, from 400 px to wide. docs/watching.md lists the fields; a part that is
// not there leaves its section out. Every text in it may be hostile: the data are JSON without one
// `<`, `>`, `&` or character beyond ASCII, and src/report/page.js lets them into the page as text
// nodes and attribute values alone.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/eval/metrics.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

// What is not finite is null, and broken UTF-8 is U+FFFD.
std::string report_data(const Json& report);
std::string render_page(std::string_view data);  // `data` as report_data gives it
// PAGE and, beside it, the same name with .json for its ending; both atomic.
void write_report(const std::filesystem::path& page, const Json& report);

// The figures with their titles, as `metrics` of a run.
Json metrics_data(const std::vector<Figure>& figures);

// At most `most` bytes, cut between two characters, with an ellipsis when something is left out.
std::string shortened(const std::string& text, std::size_t most);

}  // namespace gpuhpc
