#include "gpuhpc/app/outputs.hpp"

#include <fstream>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

bool begins_with(const fs::path& path, const std::string& begin) {
  std::string start(begin.size(), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), std::ssize(start));
  return start == begin;
}

}  // namespace

void check_output(const std::string& option, const fs::path& path, const std::string& begin) {
  std::error_code none;
  if (!fs::is_regular_file(path, none) || fs::file_size(path, none) == 0) return;
  if (!begins_with(path, begin))
    throw usage_error(
        "--{} {}: there is a file of that name which is no earlier result of this command; give "
        "another name, or move the file away",
        option, path.string());
}

void check_output_file(const Options& options) {
  const fs::path file = options.output.file, input = options.shared.input.file;
  std::error_code none;
  if (file == "-") return;
  if (fs::is_regular_file(file, none) && fs::equivalent(file, input, none))
    throw usage_error(
        "--output.file {}: this is the text that is read (--input.file), which would be written "
        "over; give another name",
        file.string());
  check_output("output.file", file, "{\"id\"");
}

void check_report(const fs::path& page, const std::string& option) {
  check_output(option, page, "<!doctype html>");
  const fs::path data = fs::path(page).replace_extension(".json");
  if (!fs::exists(page) && fs::exists(data))
    throw usage_error(
        "--{} {}: the page's data would be written over {}, which is of no such page; give another "
        "name, or move the file away",
        option, page.string(), data.string());
}

}  // namespace gpuhpc
