#include "gpuhpc/config/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc::config {
namespace {
using testing::HasSubstr;

struct Example {
  bool verbose = false;
  std::int64_t count = 3, size = -1;
  double rate = 0.5;
  std::string mode = "fast", file, text = "some";
};

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() {
    Section& s = set_.section("demo", "an example");
    s.option("verbose", example_.verbose, "say more");
    s.option("count", example_.count, "how many").range(0, 10).unit("documents");
    s.option("rate", example_.rate, "learning rate");
    s.option("mode", example_.mode, "how").one_of({"fast", "slow"});
    s.option("file", example_.file, "a file").existing_path();
    path_ = std::filesystem::temp_directory_path() /
            ("gpuhpc-options-" + std::to_string(::getpid()) + ".ini");
  }
  ~OptionsTest() override { std::filesystem::remove(path_); }
  std::string error_of(const std::vector<std::string>& arguments,
                       const std::filesystem::path& file = {}) {
    try {
      set_.parse(file, arguments);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
    return "";
  }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  Example example_;
  OptionSet set_;
  std::filesystem::path path_;
};

TEST_F(OptionsTest, CommandLineBeatsFileBeatsDefault) {
  write("[demo]\ncount = 4\nmode = slow\n");
  set_.parse(path_, {"--demo.count", "7", "--demo.verbose", "true"});
  EXPECT_EQ(example_.count, 7);
  EXPECT_EQ(example_.mode, "slow");
  EXPECT_DOUBLE_EQ(example_.rate, 0.5);
  EXPECT_TRUE(example_.verbose);
  EXPECT_TRUE(set_.given("demo.mode"));
  EXPECT_FALSE(set_.given("demo.rate"));
}
TEST_F(OptionsTest, EveryProblemIsReportedAtOnceWithTheNearestName) {
  const std::string text = error_of({"--demo.cuont", "1", "--demo.count", "99", "--demo.mode=odd",
                                     "--demo.rate", "x", "--demo.file", "/no/such"});
  for (const char* part : {"did you mean `demo.count`", "between 0 and 10", "one of fast, slow",
                           "must be a number", "does not exist"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(example_.count, 3);
  EXPECT_THAT(text, testing::Not(HasSubstr("unexpected argument")));
}
TEST_F(OptionsTest, AWordOfANameOrOfItsHelpIsEnough) {
  set_.section("other", "more").option("head-rate", example_.rate, "peak of the head");
  EXPECT_THAT(error_of({"--demo.learning-rate", "1"}), HasSubstr("did you mean `demo.rate`?"));
  EXPECT_THAT(error_of({"--other.rate", "1"}), HasSubstr("did you mean `other.head-rate`?"));
  EXPECT_THAT(error_of({"--rates", "1"}), HasSubstr("did you mean `demo.rate`?"));
  EXPECT_THAT(error_of({"--peak", "1"}), HasSubstr("did you mean `other.head-rate`?"));
  EXPECT_THAT(error_of({"--e", "1"}), HasSubstr("`e`; --help all lists"));
  EXPECT_THAT(error_of({"--demo.how-many", "1"}), HasSubstr("did you mean `demo.count`?"));
  EXPECT_THAT(error_of({"--demo.zebra", "1"}), HasSubstr("`demo.zebra`; --help demo lists"));
  EXPECT_THAT(error_of({"--zebra", "1"}), HasSubstr("`zebra`; --help all lists"));
}
TEST_F(OptionsTest, OnlyThePathThatIsUsedMustExist) {
  write("[demo]\nfile = /no/such\n");
  EXPECT_THAT(error_of({}, path_),
              HasSubstr(path_.string() + ":2: `demo.file` names `/no/such`, which does not exist"));
  EXPECT_EQ(error_of({"--demo.file", path_.string()}, path_), "");
}
TEST_F(OptionsTest, UnknownKeyInAFileNamesTheFile) {
  write("[demo]\nmodus = slow\n");
  EXPECT_THAT(error_of({}, path_), HasSubstr(path_.string()));
}
TEST_F(OptionsTest, MissingFileAndStrayWordsAreUsageErrors) {
  EXPECT_THAT(error_of({}, "/no/such.ini"), HasSubstr("/no/such.ini"));
  EXPECT_THAT(error_of({"stray"}), HasSubstr("stray"));
}
TEST_F(OptionsTest, AWrongLineIsNamedWhateverItHolds) {
  // The last line holds the marks of Boost's own message templates, which once made that message
  // endless.
  write("# fine\n[demo]\n%invalid_line% more %original_token%\n");
  EXPECT_THAT(error_of({}, path_),
              testing::AllOf(HasSubstr(path_.string() + ":3: "), HasSubstr("key = value"),
                             HasSubstr("%invalid_line% more")));
  EXPECT_THAT(error_of({"--demo.count"}), HasSubstr("demo.count"));
  EXPECT_THAT(error_of({"--demo.%canonical_option%=="}), HasSubstr("command line"));
}
TEST_F(OptionsTest, ResolvedFileReadsBackTheSame) {
  set_.parse({}, {"--demo.rate", "0.1", "--demo.mode", "slow"});
  write(set_.ini());
  example_ = {};
  set_.parse(path_, {});
  EXPECT_DOUBLE_EQ(example_.rate, 0.1);
  EXPECT_EQ(example_.mode, "slow");
}
// Whatever a value holds: a # is a comment only at the start or behind a blank.
TEST_F(OptionsTest, EveryValueReadsBackFromTheResolvedFile) {
  set_.section("demo").option("text", example_.text, "any text");
  for (const char* value :
       {"r/x#y", "r/x #y", "#x", " x ", "\"x\"", "a\\b", "a\n[b]\rc", "a=b", "-", "\"a\\", ""}) {
    set_.parse({}, {"--demo.text", value});
    write(set_.ini());
    example_.text = "before";
    set_.parse(path_, {});
    EXPECT_EQ(example_.text, value);
  }
  write("[demo]\ntext = r/x#y # a comment\n  # another\ncount = 7 # three\n");
  set_.parse(path_, {});
  EXPECT_EQ(example_.text, "r/x#y");
  EXPECT_EQ(example_.count, 7);
}
TEST_F(OptionsTest, WhatIsNoConfigFileIsNamed) {
  const auto folder = std::filesystem::temp_directory_path();
  EXPECT_THAT(error_of({}, folder), HasSubstr(folder.string() + ": this is a folder"));
  write("[demo]\ncount = 1\nrate = .3\ncount = 2\n");
  EXPECT_THAT(error_of({}, path_), HasSubstr(":4: `demo.count` stands already in line 2"));
  write("[demo]\nmode = \"fast\n");
  EXPECT_THAT(error_of({}, path_), HasSubstr(":2: a quote is opened and never closed"));
  write("[demo]\nmode = \"fast\" x\n");
  EXPECT_THAT(error_of({}, path_), HasSubstr(":2: text behind the closing quote"));
  write(std::string("\xFF\xFE[\0d\0", 6));
  EXPECT_THAT(error_of({}, path_), HasSubstr("not a config file in UTF-8"));
}
TEST_F(OptionsTest, AFileIsReadWholeUpToFourMiB) {
  const std::string body = "[demo]\ncount = 7\n", tail = "\nmode = slow\n";
  const auto of_size = [&](std::size_t size) {
    return body + "#" + std::string(size - body.size() - tail.size() - 1, 'x') + tail;
  };
  write(of_size(4 << 20));
  set_.parse(path_, {});
  EXPECT_EQ(example_.count, 7);
  EXPECT_EQ(example_.mode, "slow");
  write(of_size((4 << 20) + 1));
  EXPECT_THAT(error_of({}, path_), HasSubstr("larger than 4 MiB"));
}
TEST_F(OptionsTest, AWordStandsForOneValueOfANumber) {
  set_.section("demo").option("size", example_.size, "how large").range(-1, 100).word("auto", -1);
  EXPECT_THAT(set_.help({"demo"}),
              HasSubstr("--demo.size integer or auto\n      how large (default: auto)"));
  EXPECT_THAT(set_.markdown(), HasSubstr("| `--demo.size` | integer or auto | `auto` |"));
  set_.parse({}, {"--demo.size", "7"});
  EXPECT_EQ(example_.size, 7);
  set_.parse({}, {"--demo.size", "auto"});
  EXPECT_EQ(example_.size, -1);
  EXPECT_EQ(set_.value("demo.size"), "auto");
  write(set_.ini());
  example_.size = 0;
  set_.parse(path_, {});
  EXPECT_EQ(example_.size, -1);
  EXPECT_THAT(error_of({"--demo.size", "automatic"}),
              HasSubstr("must be a whole number or auto, not `automatic`"));
  EXPECT_THAT(error_of({"--demo.size", "200"}),
              HasSubstr("must be between -1 and 100 or auto, not 200"));
  EXPECT_EQ(example_.size, -1) << "what was there before is put back";
}
TEST_F(OptionsTest, PresetGivesWayToTheUser) {
  set_.parse({}, {"--demo.count", "5"});
  set_.set_default("demo.count", "9");
  set_.set_default("demo.mode", "slow");
  EXPECT_EQ(example_.count, 5);
  EXPECT_EQ(example_.mode, "slow");
}
struct Part {
  static constexpr const char* section = "part";
  double weight = 1;
  std::string file;
};
void declare(Section& section, Part& o) {
  section.option("weight", o.weight, "how much");
  section.option("file", o.file, "a file").existing_path();
}
TEST_F(OptionsTest, SectionsOfWhichThereMayBeSeveral) {
  std::deque<Named<Part>> parts;
  set_.add_each("a part", parts);
  write("[part.second]\nweight = 2\n[part.first-1]\nweight = .5\n");
  set_.parse(path_, {"--part.third.file", path_.string(), "--part.second.weight=7"});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "second");
  EXPECT_EQ(parts[0].options.weight, 7);
  EXPECT_EQ(parts[1].name, "first-1");
  EXPECT_EQ(parts[1].options.weight, .5);
  EXPECT_EQ(parts[2].options.file, path_.string());
  EXPECT_TRUE(set_.given("part.second.weight"));
  set_.set_default("part.third.weight", "3");
  EXPECT_EQ(parts[2].options.weight, 3);
  EXPECT_THAT(set_.ini(), testing::AllOf(HasSubstr("[part.first-1]\nweight = 0.5"),
                                         testing::Not(HasSubstr("[part.NAME]"))));
  EXPECT_THAT(set_.markdown(), HasSubstr("| `--part.NAME.weight` | number | `1` |"));
  EXPECT_THAT(error_of({"--part.second.wieght=1"}), HasSubstr("did you mean `part.second.weight`"));
  EXPECT_THAT(error_of({"--part.weight=1"}), HasSubstr("unknown option `part.weight`"));
  EXPECT_THAT(error_of({"--part.fourth.file=/no/such"}), HasSubstr("which does not exist"));
  EXPECT_EQ(parts.size(), 4U);
}

TEST_F(OptionsTest, HelpAndDocsNameEveryOption) {
  for (const char* name : {"demo.verbose", "demo.count", "demo.rate", "demo.mode", "demo.file"}) {
    EXPECT_THAT(set_.help({"all"}), HasSubstr(name));
    EXPECT_THAT(set_.help({"demo"}), HasSubstr(name));
    EXPECT_THAT(set_.markdown(), HasSubstr(name));
  }
}

TEST_F(OptionsTest, ShortHelpHasTheCommonOptionsAlone) {
  set_.section("demo").option("often", example_.count, "asked for").common();
  EXPECT_THAT(set_.help(), AllOf(HasSubstr("--demo.often"), Not(HasSubstr("--demo.rate")),
                                 HasSubstr("--help all")));
  EXPECT_THAT([&] { set_.help({"dem"}); },
              testing::ThrowsMessage<Error>(HasSubstr("no such section; the sections are demo")));
}

struct Declared {
  static constexpr const char* section = "demo";
  double rate = .25;
  std::int64_t at_once = 3;
};
void declare(Section& section, Declared& o) {
  section.option("rate", o.rate, "");
  section.option("at-once", o.at_once, "").execution();
}

TEST(Settings, AreWhatResultsDependOn) {
  EXPECT_EQ(settings_of(Declared{.rate = .5}), std::vector<std::string>{"demo.rate = 0.5"});
}

}  // namespace
}  // namespace gpuhpc::config
