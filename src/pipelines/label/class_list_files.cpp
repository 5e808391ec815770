#include "gpuhpc/pipelines/label/class_list_files.hpp"

#include <functional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

Json strings_of(const ClassList& list) {
  Json array = Json::array();
  for (const ClassId c : list) array.push_back(std::to_string(c));
  return array;
}

// One object, one document a line, written as it goes: a million documents need no memory.
void write_lines(const std::filesystem::path& path, const TokenDataset& documents,
                 const std::function<Json(std::int64_t)>& value) {
  AtomicFile file(path);
  for (std::int64_t i = 0; i < documents.size(); ++i)
    file.write(fmt::format("{}{}: {}", i == 0 ? "{" : ",\n ",
                           Json(std::string(documents.id(i))).dump(), value(i).dump()));
  file.write("}\n");
  file.commit();
}

}  // namespace

void write_class_lists(const std::filesystem::path& path, const TokenDataset& documents,
                       std::span<const ClassList> lists) {
  write_lines(path, documents,
              [&](std::int64_t i) { return strings_of(lists[static_cast<std::size_t>(i)]); });
}

void write_core_classes(const std::filesystem::path& path, const TokenDataset& documents,
                        std::span<const ClassList> lists, const Taxonomy& taxonomy) {
  write_lines(path, documents, [&](std::int64_t i) {
    const ClassList& cores = lists[static_cast<std::size_t>(i)];
    return Json{{"core classes", strings_of(cores)},
                {"with ancestors", strings_of(taxonomy.with_ancestors(cores))}};
  });
}

std::vector<ClassList> read_class_lists(const std::filesystem::path& path,
                                        const TokenDataset& documents, const Taxonomy& taxonomy) {
  const Json json = read_json(path, std::int64_t{64} << 30);  // a line of it per document
  std::vector<ClassList> lists(static_cast<std::size_t>(documents.size()));
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    const auto row = json.find(std::string(documents.id(i)));
    if (row == json.end()) continue;
    for (const Json& id : *row) {
      const ClassId c = std::stoi(id.get<std::string>());
      if (c < 0 || c >= taxonomy.size())
        throw input_error("{}: document {} names class {}, which the taxonomy does not have",
                          path.string(), documents.id(i), c);
      lists[static_cast<std::size_t>(i)].push_back(c);
    }
  }
  return lists;
}

LabelledSet read_labels(const std::filesystem::path& path) {
  LabelledSet set;
  LineReader lines(path);
  std::int64_t row = 0;
  for (std::string line; lines.next(line); ++row) {
    const Json json = parse_json(line, path.string());
    const auto positives = json.at("positives").get<std::vector<std::int32_t>>();
    set.labels.positives.append(positives);
    set.labels.ignored.append(json.at("masked").get<std::vector<std::int32_t>>());
    if (positives.empty()) continue;
    set.documents.push_back(row);
    ++(json.at("generated").get<bool>() ? set.generated : set.real);
  }
  if (set.documents.empty())
    throw input_error(
        "{}: no document got a core class; check that corpus and taxonomy are about the same "
        "subject",
        path.string());
  return set;
}

}  // namespace gpuhpc
