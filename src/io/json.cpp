#include "gpuhpc/io/json.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>
#include <vector>

#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

// far beyond any file we read; keeps hostile nesting harmless
constexpr std::size_t max_depth = 200;

std::int64_t line_of(std::string_view text, std::size_t byte) {
  return 1 + std::count(text.begin(),
                        text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())),
                        '\n');
}

// Fills `duplicate` with the first key given twice in one object; stops hostile nesting.
class KeyWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    if (static_cast<std::size_t>(depth) > max_depth) too_deep = true;
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys_.back().insert(value.get<std::string>()).second && duplicate.empty()) {
      duplicate = value.get<std::string>();
      found = true;
    }
    return true;
  }
  std::string duplicate;
  bool found = false, too_deep = false;

 private:
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  KeyWatch watch;
  Json value;
  try {
    value = Json::parse(text.begin(), text.end(),
                        [&](int depth, Json::parse_event_t event, Json& part) {
                          return watch(depth, event, part);
                        });
  } catch (const Json::parse_error& error) {
    throw input_error(
        "{}:{}: this is not valid JSON near character {}; correct it or write the file again",
        where, line_of(text, error.byte), error.byte);
  } catch (const Json::exception&) {
    throw input_error(
        "{}: the JSON holds a number that is out of range; correct it or write the file again",
        where);
  }
  if (watch.found)
    throw input_error("{}: the key `{}` is given twice in one object; keep one of them", where,
                      watch.duplicate);
  if (watch.too_deep)
    throw input_error("{}: the JSON is nested deeper than {} levels; gpuhpc writes no such file",
                      where, max_depth);
  return value;
}

std::int64_t integer(const Json& value) {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest)
                        : value.is_number_integer();
  if (!fits) throw Json::other_error::create(501, "an integer of 64 bits was expected", &value);
  return value.get<std::int64_t>();
}

Json read_json(const std::filesystem::path& path, std::int64_t max_bytes) {
  const std::string text = read_lines(path, max_bytes);
  if (text.empty()) throw input_error("{}: the file is empty; JSON was expected", path.string());
  return parse_json(text, path.string());
}

void write_json(const std::filesystem::path& path, const Json& value) {
  write_text_file(path, value.dump(2) + "\n");
}
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value) {
  write_text_file(path, value.dump(2) + "\n");
}

JsonlWriter::JsonlWriter(const std::filesystem::path& path) {
  if (path != "-") file_ = std::make_unique<AtomicFile>(path);
}
JsonlWriter::~JsonlWriter() = default;

void JsonlWriter::write(const Json& value) { write_line(value.dump()); }
void JsonlWriter::write(const nlohmann::ordered_json& value) { write_line(value.dump()); }

void JsonlWriter::write_line(std::string line) {
  line.push_back('\n');
  if (file_) {
    file_->write(line);
    return;
  }
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("write", "standard output", errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void JsonlWriter::commit() {
  if (file_) file_->commit();
}

}  // namespace gpuhpc
