// The house rules that a machine can check. The rooms and what each uses are declared once, in
// CMakeLists.txt; docs/architecture.md draws them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Names = std::set<std::string>;
using Problems = std::vector<std::string>;

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), {}};
}

struct Room {
  Names uses, tests_use;
};

struct House {
  std::map<std::string, Room> rooms;
  Problems problems;

  bool has(const std::string& room) const { return rooms.contains(room); }
  // The room, what it uses, what those use, and so on.
  Names reach(const std::string& room) const {
    Names all{room};
    for (const std::string& used : rooms.at(room).uses)
      if (has(used)) all.merge(reach(used));
    return all;
  }
};

// gpuhpc_room(NAME [TENSOR_TESTS] [USES ROOM...] [TESTS_USE ROOM...] [LIBRARIES TARGET...]) of
// CMakeLists.txt.
House read_house(const fs::path& root) {
  static const std::regex comment("#[^\n]*"), declaration(R"(gpuhpc_room\(\s*(\w+)([^)]*)\))");
  House house;
  const std::string text = std::regex_replace(read(root / "CMakeLists.txt"), comment, "");
  for (const std::smatch& match : matches(text, declaration)) {
    const std::string name = match[1];
    Room room;
    std::istringstream words(match[2]);
    std::string keyword;
    for (std::string word; words >> word;) {
      if (word == "USES" || word == "TESTS_USE" || word == "LIBRARIES" || word == "TENSOR_TESTS") {
        keyword = word;
      } else if (keyword != "LIBRARIES") {
        (keyword == "USES" ? room.uses : room.tests_use).insert(word);
        if (!house.has(word))
          house.problems.push_back("CMakeLists.txt: room " + name + " uses the later room " + word);
      }
    }
    house.rooms[name] = room;
  }
  return house;
}

struct File {
  std::string path;  // from the root, with /
  std::string top;   // include, src, tests, bench or another folder; empty: the root itself
  std::string room;  // the folder below that
  std::string text;

  bool is_room() const { return top == "include" || top == "src"; }
  std::string name() const { return fs::path(path).filename().string(); }
  // nn/encoder for include/gpuhpc/nn/encoder.hpp and src/nn/encoder.cpp.
  std::string stem() const {
    static const std::regex start("^(include/gpuhpc|src)/");
    return std::regex_replace(fs::path(path).replace_extension().string(), start, "");
  }
};

std::vector<File> read_files(const fs::path& root) {
  static const Names kinds = {".cpp", ".hpp", ".cc", ".h", ".c", ".cu", ".cuh", ".inl"};
  std::vector<File> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    const fs::path relative = fs::relative(entry->path(), root);
    const std::string name = relative.filename().string();
    if (entry->is_directory() && (name == "build" || name.starts_with('.')))
      entry.disable_recursion_pending();
    if (!entry->is_regular_file() || !kinds.contains(relative.extension().string())) continue;
    std::vector<std::string> parts;
    for (const fs::path& part : relative.parent_path()) parts.push_back(part.string());
    File file{relative.generic_string(), parts.empty() ? "" : parts[0], "", read(entry->path())};
    const std::size_t at = file.top == "include" ? 2 : 1;
    if (parts.size() > at && (at == 1 || parts[1] == "gpuhpc")) file.room = parts[at];
    files.push_back(std::move(file));
  }
  return files;
}

// A header that declares a stage: a struct called SomethingStage, or run_something(StageContext).
bool declares_stage(const File& file) {
  static const std::regex comment("//[^\n]*"),
      stage(R"(\b(struct|class) \w+Stage\b[^;{]*\{|\bvoid run_\w+\(const StageContext&)");
  return file.room == "pipelines" && file.path.ends_with(".hpp") &&
         std::regex_search(std::regex_replace(file.text, comment, ""), stage);
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  const std::string prefix = folder.generic_string() + "/";
  return file.generic_string().starts_with(prefix);
}

void check_include(const House& house, const Names& stages, const File& file,
                   const std::string& included, Problems& problems) {
  const std::string other = included.substr(0, included.find('/'));
  const auto wrong = [&](const std::string& what) { problems.push_back(file.path + ": " + what); };
  if (!house.has(other)) return wrong("includes the unknown room " + other);
  if (!file.is_room()) {
    Names reached = house.reach(file.room);
    for (const std::string& used : house.rooms.at(file.room).tests_use)
      reached.merge(house.reach(used));
    if (!reached.contains(other))
      wrong("includes " + other + ", which room " + file.room + " does not declare as TESTS_USE");
    return;
  }
  if (other != file.room && !house.rooms.at(file.room).uses.contains(other))
    wrong("includes " + other + ", which room " + file.room + " does not declare");
  static const std::regex evaluate("^src/pipelines/(.*/)?evaluate\\.cpp$");
  if (included == "eval/gold.hpp" && file.room != "eval" && !std::regex_match(file.path, evaluate))
    wrong("only the evaluate stage may read gold labels");
  const std::string stem = fs::path(included).replace_extension().string();
  const fs::path folder = fs::path(included).parent_path();  // stages that methods of a job share
  const bool shared = lies_in(file.stem(), folder) && fs::path(file.stem()).parent_path() != folder;
  if (stages.contains(stem) && file.stem() != stem && !shared && file.name() != "pipeline.cpp" &&
      file.name() != "shared_stages.cpp")
    wrong("only pipeline.cpp includes the stage " + included);
}

void check_file(const House& house, const Names& stages, const File& file, Problems& problems) {
  static const std::regex include(R"re((^|\n)[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">])re"),
      condition(R"((^|\n)[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b)");
  const bool elsewhere = file.top == "tests"
                             ? file.room.empty() || file.room == "layout" || file.room == "pipeline"
                             : file.top == "bench" && file.room.empty();
  if (elsewhere) return;  // checks of the house, and of the finished program
  if (!(file.is_room() || file.top == "tests" || file.top == "bench") || !house.has(file.room)) {
    problems.push_back(file.path + ": is in no room");
    return;
  }
  for (const std::smatch& match : matches(file.text, include)) {
    const std::string included = match[2];
    if (included.starts_with("gpuhpc/"))
      check_include(house, stages, file, included.substr(7), problems);
    else if (file.is_room() && included.find("..") != std::string::npos)
      problems.push_back(file.path + ": " + included + " reaches out of its folder");
  }
  if (!file.is_room()) return;
  static const Names conditional = {"comm", "device", "kernels"};
  if (!conditional.contains(file.room) && std::regex_search(file.text, condition))
    problems.push_back(file.path + ": #ifdef outside comm, device and kernels");
  if (std::count(file.text.begin(), file.text.end(), '\n') > 500)
    problems.push_back(file.path + ": over 500 lines");
}

// Rooms that are declared as used and of which nothing is included.
void check_uses(const House& house, const std::vector<File>& files, Problems& problems) {
  static const std::regex include(R"re(#[ \t]*include[ \t]*[<"]gpuhpc/(\w+)/)re");
  std::map<std::string, Names> included;
  for (const File& file : files)
    if (file.is_room())
      for (const std::smatch& match : matches(file.text, include))
        included[file.room].insert(match[1]);
  for (const auto& [name, room] : house.rooms)
    for (const std::string& used : room.uses)
      if (!included[name].contains(used))
        problems.push_back("CMakeLists.txt: room " + name + " declares " + used + " for nothing");
}

// The drawing: lines `labels --> base & config & io` of docs/architecture.md.
void check_drawing(const House& house, const std::string& drawing, Problems& problems) {
  static const std::regex arrow(R"(\n[ \t]*(\w+) --> (\w+(?: & \w+)*))"), word(R"(\w+)");
  std::map<std::string, Names> drawn;
  for (const std::smatch& match : matches(drawing, arrow)) {
    const std::string used = match[2];
    for (const std::smatch& name : matches(used, word)) drawn[match[1]].insert(name[0]);
  }
  for (const auto& [name, room] : house.rooms)
    if (drawn[name] != room.uses)
      problems.push_back("docs/architecture.md: the drawing of room " + name +
                         " is not what CMakeLists.txt declares");
  for (const auto& [name, uses] : drawn)
    if (!house.has(name))
      problems.push_back("docs/architecture.md: draws the unknown room " + name);
}

// Two types of one name are one for the linker: each would run the other's members. What a source
// file has in a namespace without a name is its own.
void check_types(const std::vector<File>& files, Problems& problems) {
  static const std::regex type(R"(\n(?:struct|class|enum class) (\w+)[^;{(]*\{)");
  static const std::regex space(R"(\nnamespace ([\w:]+) \{)");
  std::map<std::string, std::string> defined;  // with its namespace, and where
  for (const File& file : files) {
    if (!file.is_room() || !file.path.ends_with(".hpp")) continue;
    std::smatch around;
    std::regex_search(file.text, around, space);
    for (const std::smatch& match : matches(file.text, type)) {
      const auto [first, fresh] = defined.emplace(around.str(1) + "::" + match[1].str(), file.path);
      if (!fresh)
        problems.push_back(file.path + ": " + match[1].str() + " is also defined in " +
                           first->second);
    }
  }
}

Problems find_problems(const fs::path& root) {
  const House house = read_house(root);
  Problems problems = house.problems;
  const std::vector<File> files = read_files(root);
  Names stages;
  for (const File& file : files)
    if (declares_stage(file)) stages.insert(file.stem());
  for (const File& file : files) check_file(house, stages, file, problems);
  check_types(files, problems);
  check_uses(house, files, problems);
  check_drawing(house, read(root / "docs/architecture.md"), problems);
  return problems;
}

// Every path of this repository that the guides name.
Problems missing_paths(const fs::path& root) {
  static const std::regex path(
      R"re((^|[\s`(])((scripts|configs|jobs|data_tools|docs|bench|tests|src|include|data)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]))re");
  Problems missing;
  for (const char* guide :
       {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/recipe.md"}) {
    const std::string text = read(root / guide);
    for (const std::smatch& match : matches(text, path))
      if (!fs::exists(root / match[2].str()))
        missing.push_back(std::string(guide) + ": " + match[2].str());
  }
  return missing;
}

TEST(Layout, RepositoryKeepsTheRules) { EXPECT_THAT(find_problems(fs::current_path()), IsEmpty()); }

TEST(Layout, GuidesNameWhatIsThere) { EXPECT_THAT(missing_paths(fs::current_path()), IsEmpty()); }

// A small house that keeps the rules, in which each test breaks one.
class PlantedTree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("gpuhpc-layout-" + std::to_string(::getpid()));
    write("CMakeLists.txt", kRooms);
    write("docs/architecture.md",
          "```mermaid\ngraph BT\n  labels --> base\n  nn --> labels\n  eval --> base\n"
          "  pipelines --> base & eval\n```\n");
    write("src/labels/a.cpp", "#include \"gpuhpc/base/error.hpp\"");
    write("src/nn/a.cpp", "#include \"gpuhpc/labels/a.hpp\"");
    write("src/eval/a.cpp", "#include \"gpuhpc/base/error.hpp\"");
    write("src/pipelines/a.cpp",
          "#include \"gpuhpc/base/error.hpp\"\n#include \"gpuhpc/eval/metrics.hpp\"");
    write("include/gpuhpc/pipelines/label/encoding.hpp", "struct EncodingStage {\n};");
    write("include/gpuhpc/pipelines/label/teleclass/refinement.hpp",
          "void run_refinement(const StageContext& context);");
    ASSERT_THAT(find_problems(root_), IsEmpty());
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  Problems plant(const std::string& file, const std::string& text) {
    write(file, text);
    return find_problems(root_);
  }
  static constexpr const char* kRooms =
      "gpuhpc_room(base LIBRARIES fmt::fmt)\ngpuhpc_room(labels\n  USES base)  # data\n"
      "gpuhpc_room(nn USES labels)\ngpuhpc_room(eval USES base TESTS_USE nn)\n"
      "gpuhpc_room(pipelines USES base eval LIBRARIES nn)\n";
  fs::path root_;
};

TEST_F(PlantedTree, UndeclaredEdgeIsFoundInQuotesAndAngles) {
  for (const char* line : {"#include \"gpuhpc/nn/encoder.hpp\"", "#include <gpuhpc/nn/encoder.hpp>",
                           " # include  <gpuhpc/nn/encoder.hpp>"})
    EXPECT_THAT(plant("src/labels/x.cpp", line),
                ElementsAre("src/labels/x.cpp: includes nn, which room labels does not declare"));
}
TEST_F(PlantedTree, ADeclaredRoomOfADeclaredRoomIsNotDeclared) {
  EXPECT_THAT(plant("include/gpuhpc/nn/deep/x.hpp", "#include \"gpuhpc/base/error.hpp\""),
              ElementsAre(HasSubstr("includes base, which room nn does not declare")));
}
TEST_F(PlantedTree, UseOfALaterRoomIsFound) {
  EXPECT_THAT(plant("CMakeLists.txt", "gpuhpc_room(base USES labels)\n" + std::string(kRooms)),
              Contains("CMakeLists.txt: room base uses the later room labels"));
}
TEST_F(PlantedTree, ADeclarationForNothingIsFound) {
  EXPECT_THAT(plant("src/labels/a.cpp", ""),
              ElementsAre("CMakeLists.txt: room labels declares base for nothing"));
}
TEST_F(PlantedTree, ADrawingThatIsNotTheDeclarationIsFound) {
  EXPECT_THAT(plant("docs/architecture.md",
                    "\n  labels --> base\n  nn --> labels & base\n"
                    "  eval --> base\n  pipelines --> base & eval\n"),
              ElementsAre(HasSubstr("the drawing of room nn")));
}
TEST_F(PlantedTree, TestsReachWhatTheirRoomReachesAndDeclares) {
  const std::string base = "#include \"gpuhpc/base/error.hpp\"\n",
                    labels = "#include <gpuhpc/labels/a.hpp>\n";
  EXPECT_THAT(plant("tests/nn/x_test.cpp", base + labels), IsEmpty());
  EXPECT_THAT(plant("tests/eval/x_test.cpp", base + labels), IsEmpty());
  EXPECT_THAT(plant("bench/labels/x_bench.cpp", base + "#include <gpuhpc/nn/a.hpp>"),
              ElementsAre(HasSubstr("room labels does not declare as TESTS_USE")));
}
TEST_F(PlantedTree, GoldOutsideEvaluateIsFound) {
  const std::string gold = "#include <gpuhpc/eval/gold.hpp>";
  EXPECT_THAT(plant("src/pipelines/label/evaluate.cpp", gold), IsEmpty());
  EXPECT_THAT(plant("src/pipelines/label/training.cpp", gold), ElementsAre(HasSubstr("gold")));
}
TEST_F(PlantedTree, OnlyThePipelineIncludesStages) {
  const std::string refinement = "#include \"gpuhpc/pipelines/label/teleclass/refinement.hpp\"",
                    encoding = "#include <gpuhpc/pipelines/label/encoding.hpp>";
  EXPECT_THAT(plant("src/pipelines/label/teleclass/pipeline.cpp", refinement), IsEmpty());
  EXPECT_THAT(plant("src/pipelines/label/teleclass/refinement.cpp", refinement), IsEmpty());
  EXPECT_THAT(plant("src/pipelines/label/teleclass/training.cpp", encoding), IsEmpty())
      << "what both methods share";
  EXPECT_THAT(plant("src/pipelines/label/teleclass/hierarchy.cpp", refinement),
              ElementsAre(HasSubstr("only pipeline.cpp includes the stage")));
  EXPECT_THAT(plant("src/pipelines/label/inference.cpp", encoding),
              Contains(HasSubstr("inference.cpp: only pipeline.cpp includes the stage")));
}
TEST_F(PlantedTree, ConditionalCompilationIsFound) {
  EXPECT_THAT(plant("src/nn/x.cpp", "int i;\n# ifdef GPUHPC_WITH_CUDA\n#endif"),
              ElementsAre(HasSubstr("#ifdef")));
}
TEST_F(PlantedTree, SourceOutsideARoomIsFound) {
  for (const char* file : {"src/utils/x.cpp", "src/x.cpp", "include/x.hpp", "include/gpuhpc/x.hpp",
                           "include/other/nn/x.hpp", "tools/x.cu", "tests/utils/x.cpp", "x.cpp"}) {
    EXPECT_THAT(plant(file, ""), ElementsAre(std::string(file) + ": is in no room"));
    fs::remove(root_ / file);
  }
}
TEST_F(PlantedTree, AWayRoundTheIncludeFolderIsFound) {
  EXPECT_THAT(plant("src/labels/x.cpp", "#include \"../nn/x.hpp\""),
              ElementsAre(HasSubstr("reaches out of its folder")));
}
TEST_F(PlantedTree, ALongFileIsFound) {
  EXPECT_THAT(plant("src/nn/x.cpp", std::string(500, '\n')), ElementsAre(HasSubstr("over 500")));
}
TEST_F(PlantedTree, TwoTypesOfOneNameAreFound) {
  write("include/gpuhpc/labels/first.hpp", "\nstruct Candidate {\n};\nclass Later;");
  EXPECT_THAT(plant("src/nn/third.hpp", "\nnamespace kernels {\nstruct Candidate {\n};\n}"),
              IsEmpty());
  EXPECT_THAT(plant("src/nn/later.hpp", "\nclass Later final : public Sooner {\n};"), IsEmpty());
  EXPECT_THAT(plant("src/eval/second.hpp", "\nstruct Candidate {\n  int id;\n};"),
              ElementsAre(HasSubstr("Candidate is also defined in")));
}
TEST_F(PlantedTree, AGuidesPathThatIsNotThereIsFound) {
  plant("README.md", "run `bash scripts/gone.sh` first");
  EXPECT_THAT(missing_paths(root_), ElementsAre("README.md: scripts/gone.sh"));
}

}  // namespace
