#include "gpuhpc/pipelines/label/label_lists.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {

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
