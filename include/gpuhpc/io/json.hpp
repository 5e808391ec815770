#pragma once
// JSON files with errors that name file and line.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {

using Json = nlohmann::json;  // keys sorted: written files are the same bytes for the same values

Json parse_json(
    std::string_view text,
    const std::string& where);  // input_error "where:LINE: ..." ; duplicate keys refused
// A number that is an integer of 64 bits; Json::exception for any other value, of which a
// conversion would make something else (1.5, 1e300).
std::int64_t integer(const Json& value);
// Plain or .gz; a text of more than `max_bytes` is an input_error.
Json read_json(const std::filesystem::path& path, std::int64_t max_bytes = std::int64_t{256} << 20);
void write_json(const std::filesystem::path& path, const Json& value);
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value);

// One JSON object per line. "-" is standard output, flushed with every line.
class JsonlWriter {
 public:
  explicit JsonlWriter(const std::filesystem::path& path);
  ~JsonlWriter();
  void write(const Json& value);
  void write(const nlohmann::ordered_json& value);
  void write_line(std::string line);  // a line that is JSON already
  void commit();                      // the file appears
  // Under this name it is written until then; empty for standard output.
  std::filesystem::path temporary() const { return file_ ? file_->temporary() : ""; }

 private:
  std::unique_ptr<AtomicFile> file_;  // null: standard output
};

}  // namespace gpuhpc
