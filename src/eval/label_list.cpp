#include "gpuhpc/eval/label_list.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

void for_each_label_row(const std::filesystem::path& path,
                        const std::function<void(const std::string& where, std::string id,
                                                 std::string_view classes)>& take) {
  LineReader lines(path);
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos)
      throw input_error("{}: no tab between document id and classes; write `id<TAB>1,2,3`",
                        lines.where());
    if (tab == 0)
      throw input_error("{}: the document id is empty; write `id<TAB>1,2,3`", lines.where());
    take(lines.where(), line.substr(0, tab), std::string_view(line).substr(tab + 1));
  }
}

std::int32_t parse_label(std::string_view word, const ClassWords& words, const std::string& where) {
  const auto found = words.find(word);
  if (found) return *found;
  if (word.empty())
    throw input_error(
        "{}: an empty class between two commas; write class ids or names with one comma between",
        where);
  if (const auto alike = words.alike(word); !alike.empty())
    throw input_error(
        "{}: {} classes have the name `{}`; write the path of the one that is meant, as `{}`, or "
        "its id",
        where, alike.size(), word, words.word(alike.front()));
  throw input_error(
      "{}: unknown class `{}`; use a class name of the taxonomy or an id from 0 to {}", where,
      word.substr(0, 60), words.size() - 1);
}

std::vector<std::int32_t> parse_label_list(std::string_view text, const ClassWords& words,
                                           const std::string& where, bool refuse_repeats) {
  std::vector<std::int32_t> classes;
  text = trimmed(text);
  if (text.empty()) return classes;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t comma = std::min(text.find(',', first), text.size());
    const std::string_view word = trimmed(text.substr(first, comma - first));
    const std::int32_t c = parse_label(word, words, where);
    if (std::find(classes.begin(), classes.end(), c) == classes.end()) {
      classes.push_back(c);
    } else if (refuse_repeats) {
      throw input_error("{}: class `{}` stands twice; name each class once", where, word);
    }
    first = comma + 1;
  }
  return classes;
}

}  // namespace gpuhpc
