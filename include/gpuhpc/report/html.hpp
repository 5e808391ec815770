#pragma once
// report.html: one self-contained page (no request leaves it), light and dark, from 400 px to wide.
#include <filesystem>
#include <string>
#include <string_view>

#include "gpuhpc/report/model.hpp"

namespace gpuhpc {

std::string render_html(const ReportModel& model);
void write_report(const std::filesystem::path& path, const ReportModel& model);  // atomic

// Text for element content and attribute values: markup escaped, control characters and broken
// UTF-8 replaced by U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace gpuhpc
