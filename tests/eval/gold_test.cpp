#include "gpuhpc/eval/gold.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

#include "support.hpp"

namespace gpuhpc {
namespace {

using test::expect_has;
using test::Folder;
using test::message_of;

class Gold : public testing::Test {
 protected:
  Folder folder;
  Taxonomy taxonomy = test::small_taxonomy(folder);
  GoldLabels read(const std::string& text) {
    return read_gold(folder.write("doc2labels.txt", text), taxonomy);
  }
  std::string error(const std::string& text) {
    return message_of(ExitCode::bad_data, [&] { read(text); });
  }
};

TEST_F(Gold, ReadsIdsNamesAndWindowsLineEnds) {
  const GoldLabels gold = read("a\t3,0\r\nb c\tgames, puzzles\n\n7\t6\n");
  EXPECT_EQ(gold.ids, (std::vector<std::string>{"a", "b c", "7"}));
  EXPECT_EQ(gold.classes, (std::vector<std::vector<std::int32_t>>{{0, 3}, {1, 5}, {6}}));
}

TEST_F(Gold, ReadsGzip) {
  const auto path = folder.file("doc2labels.txt.gz");
  const gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "a\t1,5\n");
  gzclose(file);
  EXPECT_EQ(read_gold(path, taxonomy).classes, (std::vector<std::vector<std::int32_t>>{{1, 5}}));
}

TEST_F(Gold, ErrorsNameFileAndLineAndTheCure) {
  expect_has(error("a\t0\nb 1\n"), "doc2labels.txt:2: no tab");
  expect_has(
      error("a\t0\nb\t0,7\n"),
      "doc2labels.txt:2: unknown class `7`; use a class name of the taxonomy or an id from 0 to 6");
  expect_has(error("a\t-1\n"), "unknown class `-1`");
  expect_has(error("a\t99999999999999999999\n"), "unknown class `99999999999999999999`");
  expect_has(error("a\tnonsense\n"), "doc2labels.txt:1: unknown class `nonsense`");
  expect_has(error("a\t0,,1\n"), "doc2labels.txt:1: an empty class between two commas");
  expect_has(error("a\t0,1,\n"), "doc2labels.txt:1: an empty class");
  expect_has(error("a\t0,tools\n"), "doc2labels.txt:1: class `tools` stands twice");
  expect_has(error("a\t0\nb\t1\na\t1\n"), "doc2labels.txt:3: document `a` has gold labels twice");
  expect_has(error("a\t\n"), "doc2labels.txt:1: document `a` has no class");
  expect_has(error("\t0\n"), "doc2labels.txt:1: the document id is empty");
  expect_has(error("\n\n"), "doc2labels.txt: no gold labels in this file");
  expect_has(error(""), "no gold labels");
}

TEST_F(Gold, AMissingFileIsAnIoError) {
  expect_has(message_of(ExitCode::io, [&] { read_gold(folder.file("nowhere.txt"), taxonomy); }),
             "nowhere.txt");
}

TEST_F(Gold, PairsByIdAndCountsWhatIsMissing) {
  const GoldLabels gold = read("a\t0,2\nb\t1\nc\t1,5\n");
  const Predictions predictions{{"x", "c", "a"}, {{3}, {5, 1}, {}}, {}};
  const LabelledDocuments documents = pair_with_gold(gold, predictions);
  EXPECT_EQ(documents.ids, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(documents.predicted, (std::vector<std::vector<std::int32_t>>{{}, {}, {1, 5}}));
  EXPECT_EQ(documents.without_prediction, 1);
  EXPECT_EQ(documents.without_gold, 1);
  EXPECT_THAT(
      uncovered(documents, "gold.txt"),
      testing::ElementsAre(testing::HasSubstr("gold.txt: 1 of its 3 documents, the first `b`"),
                           testing::HasSubstr("1 predicted documents are not in it")));
  EXPECT_FALSE(documents.has_scores());
}

TEST_F(Gold, ANameOfSeveralClassesMustBeAPath) {
  taxonomy = Taxonomy::load(folder.write("labels.txt", "0\ttools\n1\tgames\n2\tother\n3\tother\n"),
                            folder.write("label_hierarchy.txt", "0\t2\n1\t3\n"));
  EXPECT_EQ(read("a\tgames > other,tools\n").classes,
            (std::vector<std::vector<std::int32_t>>{{0, 3}}));
  expect_has(error("a\t1\nb\tother\n"),
             "doc2labels.txt:2: 2 classes have the name `other`; write the path of the one that is "
             "meant, as `tools > other`, or its id");
  const ClassWords words(taxonomy);
  EXPECT_EQ(prediction_line("a", std::vector<std::int32_t>{3}, std::nullopt, words),
            R"({"id": "a", "labels": ["games > other"]})");
}

TEST_F(Gold, StrangersAreRefused) {
  const GoldLabels gold = read("a\t0\n");
  const std::string message = message_of(ExitCode::bad_data, [&] {
    pair_with_gold(gold, {{"b"}, {{0}}, {}});
  });
  expect_has(message, "doc2labels.txt: none of its 1 documents is among the 1 predicted ones");
}

}  // namespace
}  // namespace gpuhpc
