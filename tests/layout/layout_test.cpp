// The house rules that a machine can check: a room includes only rooms above it in architecture
// order, gold labels are reachable from the evaluate stage alone, stages do not include each other,
// #ifdef lives in comm, device and kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kRooms = {"base",   "config", "device",  "comm",      "io", "text",
                                         "labels", "data",   "kernels", "retrieval", "nn", "infer",
                                         "eval",   "report", "train",   "pipelines", "app"};

int level(const std::string& room) {
  const auto found = std::find(kRooms.begin(), kRooms.end(), room);
  return found == kRooms.end() ? -1 : static_cast<int>(found - kRooms.begin());
}

std::string room_of(const fs::path& relative) {
  auto part = relative.begin();
  if (*part == "include") ++part;  // include/gpuhpc/<room>/...
  ++part;
  return part->string();
}

void check_include(const std::string& file, const std::string& room, const std::string& included,
                   std::vector<std::string>& problems) {
  const std::string other = included.substr(0, included.find('/'));
  if (level(other) < 0) problems.push_back(file + ": includes the unknown room " + other);
  if (level(other) > level(room))
    problems.push_back(file + ": room " + room + " includes the lower room " + other);
  const std::string name = fs::path(file).filename().string();
  if (included == "eval/gold.hpp" && room != "eval" && name != "evaluate.cpp")
    problems.push_back(file + ": only the evaluate stage may read gold labels");
  const bool is_stage = included.starts_with("pipelines/") &&
                        std::count(included.begin(), included.end(), '/') == 3 &&
                        !included.ends_with("/pipeline.hpp") && !included.ends_with("/options.hpp");
  if (is_stage && room == "pipelines" && name != "pipeline.cpp" &&
      fs::path(included).stem() != fs::path(file).stem())
    problems.push_back(file + ": only pipeline.cpp includes other stages");
}

void check_file(const fs::path& root, const fs::path& path, std::vector<std::string>& problems) {
  static const std::regex include(R"re(^\s*#\s*include\s*"gpuhpc/([^"]+)")re"),
      condition(R"(^\s*#\s*(ifdef|ifndef|if)\b)");
  const fs::path relative = fs::relative(path, root);
  const std::string room = room_of(relative);
  std::ifstream stream(path);
  std::string line;
  int lines = 0;
  while (std::getline(stream, line)) {
    ++lines;
    std::smatch match;
    if (std::regex_search(line, match, include))
      check_include(relative.string(), room, match[1], problems);
    if (std::regex_search(line, condition) && room != "comm" && room != "device" &&
        room != "kernels")
      problems.push_back(relative.string() + ": #ifdef outside comm, device and kernels");
  }
  if (lines > 400) problems.push_back(relative.string() + ": over 400 lines");
  if (level(room) < 0) problems.push_back(relative.string() + ": is in no known room");
}

std::vector<std::string> find_problems(const fs::path& root) {
  std::vector<std::string> problems;
  for (const char* top : {"include/gpuhpc", "src"})
    if (fs::exists(root / top))
      for (const auto& entry : fs::recursive_directory_iterator(root / top))
        if (entry.is_regular_file()) check_file(root, entry.path(), problems);
  return problems;
}

// Every path of this repository that the README names.
std::vector<std::string> missing_readme_paths(const fs::path& root) {
  std::ifstream stream(root / "README.md");
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  static const std::regex path(
      R"re((^|[\s`(])((scripts|configs|jobs|data_tools|docs|bench|tests|src|include|data)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]))re");
  std::vector<std::string> missing;
  for (std::sregex_iterator i(text.begin(), text.end(), path), end; i != end; ++i)
    if (!fs::exists(root / (*i)[2].str())) missing.push_back((*i)[2]);
  return missing;
}

class PlantedTree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("gpuhpc-layout-" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::vector<std::string> plant(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
    return find_problems(root_);
  }
  fs::path root_;
};

TEST(Layout, RepositoryKeepsTheRules) { EXPECT_THAT(find_problems(GPUHPC_SOURCE_DIR), IsEmpty()); }

TEST(Layout, ReadmeNamesWhatIsThere) {
  EXPECT_THAT(missing_readme_paths(GPUHPC_SOURCE_DIR), IsEmpty());
}
TEST_F(PlantedTree, ReadmePathThatIsNotThereIsFound) {
  plant("README.md", "run `bash scripts/gone.sh` first");
  EXPECT_THAT(missing_readme_paths(root_), testing::ElementsAre("scripts/gone.sh"));
}

TEST_F(PlantedTree, IncludeOfALowerRoomIsFound) {
  EXPECT_THAT(plant("src/labels/x.cpp", "#include \"gpuhpc/nn/encoder.hpp\""),
              Contains(HasSubstr("labels includes the lower room nn")));
}
TEST_F(PlantedTree, GoldOutsideEvaluateIsFound) {
  EXPECT_THAT(plant("src/pipelines/label/training.cpp", "#include \"gpuhpc/eval/gold.hpp\""),
              Contains(HasSubstr("gold")));
}
TEST_F(PlantedTree, EvaluateMayReadGold) {
  EXPECT_THAT(plant("src/pipelines/label/evaluate.cpp", "#include \"gpuhpc/eval/gold.hpp\""),
              IsEmpty());
}
TEST_F(PlantedTree, StageIncludingAStageIsFound) {
  EXPECT_THAT(plant("src/pipelines/label/teleclass/hierarchy.cpp",
                    "#include \"gpuhpc/pipelines/label/teleclass/refinement.hpp\""),
              Contains(HasSubstr("pipeline.cpp")));
}
TEST_F(PlantedTree, ConditionalCompilationIsFound) {
  EXPECT_THAT(plant("src/nn/x.cpp", "#ifdef GPUHPC_WITH_CUDA\n#endif"),
              Contains(HasSubstr("#ifdef")));
}
TEST_F(PlantedTree, UnknownRoomIsFound) {
  EXPECT_THAT(plant("src/utils/x.cpp", ""), Contains(HasSubstr("no known room")));
}

}  // namespace
