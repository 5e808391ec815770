#include "gpuhpc/labels/taxonomy.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "gpuhpc/base/error.hpp"
#include "world.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TaxonomyWorlds : public LabelWorlds {};

TEST_P(TaxonomyWorlds, EqualsTheReference) {
  const auto& graph = world.json.at("graph");
  const Taxonomy& t = world.taxonomy;
  EXPECT_EQ(t.paths(), graph.at("paths").get<std::vector<ClassPath>>());
  EXPECT_EQ(t.roots(), graph.at("roots").get<ClassPath>());
  EXPECT_EQ(t.leaves(), graph.at("leaves").get<ClassPath>());
  for (ClassId c = 0; c < t.size(); ++c) {
    const auto at = [&](const char* key) { return graph.at(key).at(static_cast<std::size_t>(c)); };
    EXPECT_EQ(t.title(c), at("titles").get<std::string>());
    EXPECT_EQ(t.depth(c), at("depths").get<std::int64_t>());
    EXPECT_EQ(plain(t.ancestors(c)), at("ancestors").get<ClassPath>());
    EXPECT_EQ(plain(t.descendants(c)), at("descendants").get<ClassPath>());
    EXPECT_EQ(t.siblings(c), at("siblings").get<ClassPath>());
    EXPECT_EQ(t.first_path(c), at("first_paths").get<ClassPath>());
    EXPECT_EQ(t.find(t.name(c)), c);
    std::vector<std::int32_t> through;
    for (std::size_t k = 0; k < t.paths().size(); ++k)
      if (std::ranges::count(t.paths()[k], c)) through.push_back(static_cast<std::int32_t>(k));
    EXPECT_EQ(plain(t.paths_through(c)), through);
  }
  EXPECT_EQ(t.find("no such class"), std::nullopt);
}
INSTANTIATE_TEST_SUITE_P(Labels, TaxonomyWorlds, testing::Values("made", "random"));

TEST(Taxonomy, LeafWithTwoParentsEndsTwoPathsAndALoneClassOne) {
  const Taxonomy t({"a", "b", "leaf", "alone"}, {{1, 2}, {0, 2}});
  EXPECT_THAT(t.paths(), ElementsAre(ClassPath{0, 2}, ClassPath{1, 2}, ClassPath{3}));
  EXPECT_THAT(plain(t.parents(2)), ElementsAre(0, 1));
  EXPECT_THAT(t.with_ancestors(ClassPath{2, 3}), ElementsAre(0, 1, 2, 3));
}

TEST(Taxonomy, DepthIsTheLongestWayFromARoot) {
  const Taxonomy t({"a", "b", "c", "d"}, {{0, 1}, {1, 2}, {0, 2}, {2, 3}});
  EXPECT_EQ(t.depth(2), 3);
  EXPECT_EQ(t.depth(3), 4);
}

TEST(Taxonomy, AnEdgeListedTwiceCountsOnce) {
  const Taxonomy t({"a", "b"}, {{0, 1}, {0, 1}});
  EXPECT_EQ(t.paths().size(), 1U);
}

TEST(Taxonomy, TitlesSayWhatPeopleRead) {
  EXPECT_EQ(class_title("Works_with::Image"), "works with image");
  EXPECT_EQ(class_title("a:b"), "a:b");
  EXPECT_EQ(class_title("\xC3\xA9t\xC3\xA9"), "\xC3\xA9t\xC3\xA9");
}

std::string refusal(const std::string& labels, const std::string& hierarchy) {
  try {
    Taxonomy::parse(labels, "l.txt", hierarchy, "h.txt");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    return error.what();
  }
  return "accepted";
}

TEST(TaxonomyParse, ReadsAnyOrderBlankLinesAndWindowsLineEnds) {
  const Taxonomy t = Taxonomy::parse(
      "\xEF\xBB\xBF"
      "1\tb\r\n\r\n0\ta\r\n2\tc",
      "l.txt", "0\t1\n0\t2\n", "h.txt");
  EXPECT_EQ(t.name(0), "a");
  EXPECT_EQ(t.name(2), "c");
  EXPECT_THAT(plain(t.children(0)), ElementsAre(1, 2));
}

TEST(TaxonomyParse, WithoutAnEdgeTheClassesAreAFlatList) {
  const Taxonomy t = Taxonomy::parse("0\ta\n1\tb\n", "l.txt", "\n", "h.txt");
  EXPECT_THAT(t.roots(), ElementsAre(0, 1));
  EXPECT_THAT(t.leaves(), ElementsAre(0, 1));
}

// Two roots with a class `other` each, a third `other` that is a root, a fourth below the first.
TEST(TaxonomyParse, ClassesOfOneNameAreToldApartByTheirPaths) {
  const Taxonomy t =
      Taxonomy::parse("0\ttools\n1\tgames\n2\tother\n3\tother\n4\tother\n5\tpuzzles\n6\tother\n",
                      "l.txt", "0\t2\n1\t3\n1\t5\n2\t6\n5\t6\n", "h.txt");
  EXPECT_THAT(t.labels(), ElementsAre("tools", "games", "tools > other", "games > other", "> other",
                                      "puzzles", "tools > other > other"));
  for (ClassId c = 0; c < t.size(); ++c) EXPECT_EQ(t.find(t.label(c)), c);
  EXPECT_EQ(t.find("other"), std::nullopt);
  EXPECT_THAT(t.named("other"), ElementsAre(2, 3, 4, 6));
  EXPECT_EQ(t.name(3), "other");
}

TEST(TaxonomyParse, SiblingsOfOneNameAndNamesLikePathsAreRefused) {
  const std::string labels = "0\ta\n1\tb\n2\tx\n3\tx\n";
  EXPECT_THAT(refusal(labels, "0\t2\n1\t2\n1\t3\n"),
              HasSubstr("l.txt:4: the name x stands already at l.txt:3, and both classes have the "
                        "same parent"));
  EXPECT_THAT(refusal(labels, "0\t1\n"), HasSubstr("l.txt:4: the name x stands already"));
  EXPECT_THAT(
      refusal(labels + "4\tb > x\n", "0\t2\n1\t3\n"),
      HasSubstr("l.txt:5: `b > x` is the name of a class and the path of another at l.txt:4"));
}

TEST(TaxonomyParse, RefusesBadLabelsNamingFileAndLine) {
  EXPECT_THAT(refusal("", "0\t1\n"), HasSubstr("l.txt:1: the file holds no class"));
  EXPECT_THAT(refusal("\n\n", "0\t1\n"), HasSubstr("l.txt:1: the file holds no class"));
  EXPECT_THAT(refusal("0\ta\n1 b\n", "0\t1\n"), HasSubstr("l.txt:2: no tab"));
  EXPECT_THAT(refusal("0\ta\tb\n", "0\t1\n"), HasSubstr("l.txt:1: more than one tab"));
  EXPECT_THAT(refusal("0\ta\n1\t\n", "0\t1\n"), HasSubstr("l.txt:2: class 1 has no name"));
  EXPECT_THAT(refusal("0\ta\n0\tb\n", "0\t1\n"),
              HasSubstr("l.txt:2: class id 0 stands already at l.txt:1"));
  EXPECT_THAT(refusal("0\ta\nx\tb\n", "0\t1\n"), HasSubstr("l.txt:2: `x` is not a class id"));
  EXPECT_THAT(refusal("-1\ta\n", "0\t1\n"), HasSubstr("l.txt:1: `-1` is not a class id"));
  EXPECT_THAT(refusal("99999999999999999999\ta\n", "0\t1\n"),
              HasSubstr("l.txt:1: `99999999999999999999` is not a class id"));
  EXPECT_THAT(refusal("0\ta\n2\tb\n", "0\t2\n"), HasSubstr("l.txt:2: the file lists 2 classes"));
  EXPECT_THAT(refusal("0\ta\xFF\n", "0\t1\n"), HasSubstr("l.txt:1: byte 4 (0xff) is not UTF-8"));
}

TEST(TaxonomyParse, RefusesBadEdgesNamingFileAndLine) {
  const std::string labels = "0\ta\n1\tb\n2\tc\n3\td\n";
  EXPECT_THAT(refusal(labels, "0\t1\n0 2\n"), HasSubstr("h.txt:2: no tab"));
  EXPECT_THAT(refusal(labels, "0\t1\n0\t4\n"), HasSubstr("h.txt:2: class id 4 is not in l.txt"));
  EXPECT_THAT(refusal(labels, "0\t1\n2\t2\n"), HasSubstr("h.txt:2: class c is its own parent"));
  EXPECT_THAT(refusal(labels, "0\t1\n\xC0\t2\n"), HasSubstr("h.txt:2: byte 1 (0xc0) is not UTF-8"));
  const std::string cycle = refusal(labels, "0\t1\n1\t2\n2\t3\n3\t1\n");
  EXPECT_THAT(cycle, HasSubstr("form a cycle; remove one of its edges"));
  EXPECT_THAT(cycle, testing::AnyOf(HasSubstr("b > c > d > b"), HasSubstr("c > d > b > c"),
                                    HasSubstr("d > b > c > d")));
  EXPECT_THAT(cycle, testing::MatchesRegex("h\\.txt:[234]: .*"));
  EXPECT_THAT(
      refusal(labels, "0\t1\n1\t0\n"),
      testing::MatchesRegex("h\\.txt:[12]: the classes (a > b > a|b > a > b) form a cycle.*"));
}

TEST(TaxonomyParse, RefusesWhatWouldExplode) {
  std::string labels, ladder, chain;
  for (int c = 0; c < 80; ++c) labels += fmt::format("{}\tn{}\n", c, c);
  for (int layer = 0; layer < 39; ++layer)  // 2^40 paths
    for (const int from : {0, 1})
      for (const int to : {2, 3})
        ladder += fmt::format("{}\t{}\n", 2 * layer + from, 2 * layer + to);
  for (int c = 0; c + 1 < 80; ++c) chain += fmt::format("{}\t{}\n", c, c + 1);
  EXPECT_THAT(refusal(labels, ladder), HasSubstr("paths lead from a root to a leaf"));
  EXPECT_THAT(refusal(labels, chain), HasSubstr("levels deep"));
}

TEST(TaxonomyLoad, ReadsFilesAndNamesThemInErrors) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "gpuhpc_taxonomy";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "labels.txt") << "0\ta\n1\tb\n";
  std::ofstream(folder / "tree.txt") << "0\t1\n";
  std::ofstream(folder / "wrong.txt") << "0\t1\n1\t7\n";
  EXPECT_THAT(plain(Taxonomy::load(folder / "labels.txt", folder / "tree.txt").children(0)),
              ElementsAre(1));
  std::ofstream(folder / "empty.txt");
  EXPECT_EQ(Taxonomy::load(folder / "labels.txt", folder / "empty.txt").roots().size(), 2U);
  try {
    Taxonomy::load(folder / "labels.txt", folder / "wrong.txt");
    FAIL() << "an unknown id was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder / "wrong.txt").string() + ":2: class id 7"));
    EXPECT_EQ(error.code(), ExitCode::bad_data);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpuhpc
