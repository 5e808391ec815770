#include "publish.hpp"

#include <algorithm>

#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// A second name for a finished file; a copy where the file system has no links.
void link_file(const fs::path& from, const fs::path& to) {
  create_folder(to.parent_path());
  fs::remove(to);
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) gpuhpc::copy_file(from, to);
}

// Where the last stage that leaves such a file has it.
fs::path output_of(const std::vector<Stage>& stages, const fs::path& run, const std::string& name) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (std::ranges::find(stages[i].outputs, name) != stages[i].outputs.end()) last = i;
  return stage_folder(run, stages, last) / name;
}

}  // namespace

void publish(const std::vector<Stage>& stages, const fs::path& run) {
  for (const char* name : {"predictions.jsonl", "submission.csv", "metrics.jsonl", "ranks.jsonl"})
    if (const fs::path file = output_of(stages, run, name); fs::exists(file))
      link_file(file, run / name);  // older runs have no ranks.jsonl
  fs::remove_all(run / "model");
  const fs::path model = output_of(stages, run, "model");
  for (const auto& entry : fs::recursive_directory_iterator(model))
    if (entry.is_regular_file())
      link_file(entry.path(), run / "model" / fs::relative(entry.path(), model));
}

}  // namespace gpuhpc
