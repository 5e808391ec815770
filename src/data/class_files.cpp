#include "gpuhpc/data/class_files.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == text.npos ? std::string_view{}
                            : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// "_kw_one" -> "kw one"
std::string as_term(std::string_view text) {
  std::string term(text);
  std::replace(term.begin(), term.end(), '_', ' ');
  return std::string(trimmed(term));
}

// A class id as JSON string or number, in range; -1 otherwise.
std::int32_t class_id(const Json& value, std::size_t classes) {
  if (!value.is_string() && !value.is_number_unsigned()) return -1;
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id >= 0 &&
                 id < static_cast<std::int64_t>(classes)
             ? id
             : -1;
}

std::int32_t needed_class(const Json& value, std::size_t classes, const fs::path& path,
                          const std::string& document) {
  const std::int32_t id = class_id(value, classes);
  if (id < 0) {
    throw input_error(
        "{}: document `{}` names the class {}, which is not a class id (0 to {}); use the ids of "
        "the labels file",
        path.string(), document, value.dump(), static_cast<std::int64_t>(classes) - 1);
  }
  return id;
}

}  // namespace

std::vector<std::vector<std::string>> read_class_terms(
    const fs::path& path, const std::vector<std::string>& class_names) {
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < class_names.size(); ++i) by_name.emplace(class_names[i], i);
  std::vector<std::vector<std::string>> terms(class_names.size());
  std::vector<bool> given(class_names.size());
  LineReader lines(path);
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty()) continue;
    // A name may hold "::" (facet::tag); the longest known name in front of a colon is meant.
    auto found = by_name.end();
    std::size_t colon = line.npos;
    for (std::size_t at = line.find(':'); at != line.npos; at = line.find(':', at + 1)) {
      const auto candidate = by_name.find(trimmed(line.substr(0, at)));
      if (candidate != by_name.end()) found = candidate, colon = at;
    }
    if (line.find(':') == line.npos)
      throw input_error("{}: no colon between class and terms; write `name:term1,term2`",
                        lines.where());
    if (found == by_name.end()) {
      throw input_error(
          "{}: there is no class `{}`; use a name of the labels file, or a path (`parent > name`) "
          "where several classes have the name",
          lines.where(), trimmed(line.substr(0, line.find(':'))));
    }
    if (given[found->second])
      throw input_error("{}: the class `{}` has a row already; join the two rows", lines.where(),
                        found->first);
    given[found->second] = true;
    auto& list = terms[found->second];
    std::string_view rest = line.substr(colon + 1);
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string term = as_term(rest.substr(0, comma));
      if (!term.empty() && std::find(list.begin(), list.end(), term) == list.end())
        list.push_back(std::move(term));
      rest.remove_prefix(std::min(rest.size(), comma + 1));
    }
  }
  return terms;
}

std::vector<std::string> read_class_descriptions(const fs::path& path,
                                                 const std::vector<std::string>& class_names) {
  std::vector<std::string> descriptions(class_names.size());
  std::vector<bool> given(class_names.size());
  LineReader lines(path);
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    if (tab == line.npos)
      throw input_error("{}: no tab between class id and description; write `id<TAB>description`",
                        lines.where());
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + tab, id);
    if (error != std::errc() || end != line.data() + tab || id >= class_names.size()) {
      throw input_error("{}: `{}` is not a class id; use an id of the labels file (0 to {})",
                        lines.where(), line.substr(0, tab),
                        static_cast<std::int64_t>(class_names.size()) - 1);
    }
    if (given[id])
      throw input_error("{}: class {} has a description already; keep one", lines.where(), id);
    given[id] = true;
    descriptions[id] = trimmed(line.substr(tab + 1));
  }
  return descriptions;
}

GeneratedDocuments read_generated_documents(const fs::path& documents, const fs::path& labels,
                                            const std::vector<std::string>& class_names) {
  GeneratedDocuments generated;
  generated.documents = read_corpus(documents);
  const Json map = read_json(labels, std::int64_t{64} << 30);  // a line of it per document
  if (!map.is_object())
    throw input_error("{}: a JSON object from document id to classes was expected",
                      labels.string());
  for (const auto& id : generated.documents.ids) {
    const auto entry = map.find(id);
    if (entry == map.end() || !entry->is_object() || !entry->contains("core_classes")) {
      throw input_error("{}: no \"core_classes\" for document `{}` of {}; add it", labels.string(),
                        id, documents.string());
    }
    const Json& core = (*entry)["core_classes"];
    const std::int32_t target = needed_class(core, class_names.size(), labels, id);
    std::vector<std::int32_t> all{target};
    if (entry->contains("with ancestors")) {
      for (const Json& one : (*entry)["with ancestors"])
        all.push_back(needed_class(one, class_names.size(), labels, id));
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    generated.target.push_back(target);
    generated.labels.push_back(std::move(all));
  }
  if (map.size() != generated.documents.ids.size()) {
    throw input_error(
        "{}: it names {} documents, {} holds {}; the two files do not belong together",
        labels.string(), map.size(), documents.string(), generated.documents.ids.size());
  }
  return generated;
}

}  // namespace gpuhpc
