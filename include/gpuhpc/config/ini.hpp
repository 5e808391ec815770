#pragma once
// Config files: [section] and `key = value` lines; a # at the start or behind a blank begins a
// comment. A value that blanks, quotes or such a # would change stands in double quotes.
#include <filesystem>
#include <string>
#include <vector>

namespace gpuhpc::config {

struct IniLine {
  std::string name, value;  // name: "section.key"
  std::string where;        // "FILE:LINE"
};

// Throws input_error for what is no such file, and for a key that stands twice.
std::vector<IniLine> read_ini(const std::filesystem::path& file);
// As read_ini() reads it back.
std::string ini_value(const std::string& value);

}  // namespace gpuhpc::config
