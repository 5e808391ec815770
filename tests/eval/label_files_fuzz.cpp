// libFuzzer target: any bytes, read as submission.csv, predictions.jsonl and gold labels (plain or
// gzip), either give documents that survive being written and read again, or an error of theirs.
// Seeds: tests/eval/fixtures/label_file_seeds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/gold.hpp"

namespace {

using gpuhpc::Predictions;

const gpuhpc::Taxonomy& taxonomy() {
  static const gpuhpc::Taxonomy made({"tools", "games", "backup", "editors", "12"},
                                     {{0, 2}, {0, 3}, {1, 3}, {1, 4}});
  return made;
}

// The folder whose names lead to the bytes under test: the name tells the format.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name =
        (std::filesystem::temp_directory_path() / "gpuhpc-label-files-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    return std::filesystem::path(name);
  }();
  return made;
}

void require(bool sound) {
  if (!sound) std::abort();
}

template <typename Work>
void try_reading(const Work& work) {
  try {
    work();
  } catch (const gpuhpc::Error& error) {
    // a score such as 1e63, which the program's numbers do not hold, has a code of its own
    require(error.code() == gpuhpc::ExitCode::bad_data ||
            error.code() == gpuhpc::ExitCode::diverged);
  }
}

void check_predictions(const Predictions& first) {
  require(!first.ids.empty() && first.labels.size() == first.ids.size());
  require(first.scores.empty() || first.scores.size() == first.ids.size());
  require(std::set<std::string>(first.ids.begin(), first.ids.end()).size() == first.ids.size());
  for (const auto& labels : first.labels)
    for (const std::int32_t c : labels) require(c >= 0 && c < taxonomy().size());
  const std::filesystem::path written = folder() / "written.jsonl";
  std::ofstream file(written);
  for (std::size_t d = 0; d < first.ids.size(); ++d) {
    std::optional<std::span<const gpuhpc::ClassScore>> scores;
    if (!first.scores.empty()) scores = first.scores[d];
    file << gpuhpc::prediction_line(first.ids[d], first.labels[d], scores,
                                    gpuhpc::ClassWords(taxonomy()))
         << '\n';
  }
  file.close();
  const Predictions second = gpuhpc::read_predictions(written, taxonomy());
  require(first.ids == second.ids && first.labels == second.labels &&
          first.scores.size() == second.scores.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int memory = ::memfd_create("labels", 0);
  require(memory >= 0 && ::write(memory, data, size) == static_cast<ssize_t>(size));
  for (const char* const name : {"in.csv", "in.jsonl", "in.txt"}) {
    const std::filesystem::path link = folder() / name;
    std::filesystem::remove(link);
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(memory), link);
  }
  try_reading([] { check_predictions(gpuhpc::read_predictions(folder() / "in.csv", taxonomy())); });
  try_reading(
      [] { check_predictions(gpuhpc::read_predictions(folder() / "in.jsonl", taxonomy())); });
  try_reading([] {
    const gpuhpc::GoldLabels gold = gpuhpc::read_gold(folder() / "in.txt", taxonomy());
    for (const auto& classes : gold.classes) require(!classes.empty());
  });
  ::close(memory);
  return 0;
}
