#include "gpuhpc/config/ini.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <unordered_map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"

namespace gpuhpc::config {
namespace {

constexpr std::size_t largest_file = std::size_t{4} << 20;
constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view{}
                            : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Where a comment begins: at a # with nothing or a blank before it, so that `runs/x#y` is whole.
std::size_t comment_of(std::string_view text) {
  for (std::size_t at = text.find('#'); at != text.npos; at = text.find('#', at + 1))
    if (at == 0 || blanks.find(text[at - 1]) != blanks.npos) return at;
  return text.size();
}

// The text between double quotes, with \" \\ \n \r for what cannot stand there as it is.
std::string unquoted(std::string_view text, const std::string& where) {
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      const std::string_view rest = trimmed(text.substr(i + 1));
      if (!rest.empty() && !rest.starts_with('#'))
        throw input_error("{}: text behind the closing quote; write \\\" for a quote in a value",
                          where);
      return value;
    }
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    if (escaped) ++i;
    value += !escaped ? text[i] : text[i] == 'n' ? '\n' : text[i] == 'r' ? '\r' : text[i];
  }
  throw input_error("{}: a quote is opened and never closed; close it", where);
}

std::string read_whole(const std::filesystem::path& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none))
    throw input_error("{}: this is a folder; name a config file", file.string());
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw input_error("{}: cannot open this config file; check --config", file.string());
  std::string text;
  std::array<char, 1 << 14> part;
  do {
    stream.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  } while (stream && text.size() <= largest_file);
  if (stream.bad())
    throw input_error("{}: cannot read this config file; check the disk", file.string());
  const bool binary = text.find('\0') != text.npos, large = text.size() > largest_file;
  if (large && !binary)
    throw input_error("{}: a config file larger than 4 MiB; name another with --config",
                      file.string());
  if (binary || find_invalid_utf8(text) != std::string_view::npos)
    throw input_error(
        "{}: this is not a config file in UTF-8; write [section] and key = value lines",
        file.string());
  return text;
}

}  // namespace

std::vector<IniLine> read_ini(const std::filesystem::path& file) {
  const std::string text = read_whole(file);
  std::vector<IniLine> lines;
  std::unordered_map<std::string, int> seen;
  std::string section;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view whole = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), whole.size() + 1));
    const std::string where = fmt::format("{}:{}", file.string(), number);
    const std::string_view line = trimmed(whole), bare = trimmed(line.substr(0, comment_of(line)));
    const std::size_t equals = line.find('=');
    if (bare.empty()) continue;
    if (bare.starts_with('[') && bare.ends_with(']')) {
      section = std::string(trimmed(bare.substr(1, bare.size() - 2)));
      continue;
    }
    if (equals == line.npos || bare.starts_with('['))
      throw input_error("{}: neither [section] nor key = value: `{}`", where, line.substr(0, 60));
    const std::string key(trimmed(line.substr(0, equals)));
    const std::string_view value = trimmed(line.substr(equals + 1));
    lines.push_back({section.empty() ? key : section + "." + key,
                     value.starts_with('"')
                         ? unquoted(value, where)
                         : std::string(trimmed(value.substr(0, comment_of(value)))),
                     where});
    const auto [earlier, fresh] = seen.try_emplace(lines.back().name, number);
    if (!fresh)
      throw input_error("{}: `{}` stands already in line {}; keep one of the two", where,
                        lines.back().name, earlier->second);
  }
  return lines;
}

std::string ini_value(const std::string& value) {
  const bool plain = trimmed(value) == value && !value.starts_with('"') &&
                     comment_of(value) == value.size() && value.find('\n') == value.npos;
  if (plain) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '\n' || c == '\r') quoted += '\\';
    quoted += c == '\n' ? 'n' : c == '\r' ? 'r' : c;
  }
  return quoted + '"';
}

}  // namespace gpuhpc::config
