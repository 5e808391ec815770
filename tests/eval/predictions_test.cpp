#include "gpuhpc/eval/predictions.hpp"

#include "support.hpp"

namespace gpuhpc {
namespace {

using test::expect_has;
using test::Folder;
using test::message_of;
using Labels = std::vector<std::vector<std::int32_t>>;

class PredictionFiles : public testing::Test {
 protected:
  Folder folder;
  Taxonomy taxonomy = test::small_taxonomy(folder);
  Predictions csv(const std::string& text) {
    return read_predictions(folder.write("submission.csv", text), taxonomy);
  }
  Predictions jsonl(const std::string& text) {
    return read_predictions(folder.write("predictions.jsonl", text), taxonomy);
  }
  std::string csv_error(const std::string& text) {
    return message_of(ExitCode::bad_data, [&] { csv(text); });
  }
  std::string jsonl_error(const std::string& text, ExitCode code = ExitCode::bad_data) {
    return message_of(code, [&] { jsonl(text); });
  }
};

TEST_F(PredictionFiles, CsvColumnsInAnyOrderIdsOrNames) {
  const Predictions predictions =
      csv("\xEF\xBB\xBFnote,labels,id\r\nx,\"3,0\",d1\r\n\"a,\"\"b\"\"\nc\",\"tools, "
          "editors,tools\",\"d,2\"\r\n,,d3\r\n");
  EXPECT_EQ(predictions.ids, (std::vector<std::string>{"d1", "d,2", "d3"}));
  EXPECT_EQ(predictions.labels, (Labels{{3, 0}, {0, 3}, {}}));
  EXPECT_TRUE(predictions.scores.empty());
}

TEST_F(PredictionFiles, CsvErrorsNameFileAndLine) {
  expect_has(csv_error(""), "submission.csv: the file is empty");
  expect_has(csv_error("pid,classes\n"), "submission.csv:1: no column `labels`");
  expect_has(csv_error("document,labels\n"), "submission.csv:1: no column `pid`");
  expect_has(csv_error("pid,labels\n"), "submission.csv: no predicted document");
  expect_has(
      csv_error("pid,labels\na,1,2\n"),
      "submission.csv:2: 3 columns where the header has 2; put the labels of a document in quotes");
  expect_has(csv_error("pid,labels\na,\"1,9\"\n"), "submission.csv:2: unknown class `9`");
  expect_has(csv_error("pid,labels\na,1\na,2\n"),
             "submission.csv:3: document `a` is predicted twice");
  expect_has(csv_error("pid,labels\na,\"1\n"),
             "submission.csv:2: a quote is opened and never closed");
  expect_has(csv_error("pid,labels\n,1\n"), "submission.csv:2: the document id is empty");
}

TEST_F(PredictionFiles, JsonLinesWithScores) {
  const Predictions predictions = jsonl(
      "{\"id\": \"d1\", \"labels\": [\"tools\", 3], \"scores\": {\"tools\": 0.25, \"3\": 0.5, "
      "\"games\": 0.25}}\n"
      "{\"scores\": {}, \"labels\": [], \"id\": 17}\n");
  EXPECT_EQ(predictions.ids, (std::vector<std::string>{"d1", "17"}));
  EXPECT_EQ(predictions.labels, (Labels{{0, 3}, {}}));
  ASSERT_EQ(predictions.scores.size(), 2u);
  std::vector<std::int32_t> order;
  for (const ClassScore& s : predictions.scores[0]) order.push_back(s.class_id);
  EXPECT_EQ(order, (std::vector<std::int32_t>{3, 0, 1}));  // the smaller id first among equals
}

TEST_F(PredictionFiles, JsonLinesErrorsNameFileAndLine) {
  expect_has(jsonl_error("{\"id\": \"a\", \"labels\": []}\nnonsense\n"),
             "predictions.jsonl:2: not a JSON object");
  expect_has(jsonl_error("{\"labels\": []}\n"), "predictions.jsonl:1: no \"id\"");
  expect_has(jsonl_error("{\"id\": \"a\"}\n"), "predictions.jsonl:1: no \"labels\"");
  expect_has(jsonl_error("{\"id\": \"a\", \"labels\": [true]}\n"),
             "predictions.jsonl:1: a label must be text or a whole number");
  expect_has(jsonl_error("{\"id\": \"a\", \"labels\": [\"cats\"]}\n"),
             "predictions.jsonl:1: unknown class `cats`");
  expect_has(jsonl_error("{\"id\": \"a\", \"labels\": [], \"scores\": {\"tools\": \"x\"}}\n"),
             "the score of `tools` is not a number");
  for (const char* score : {"1e99", "NaN", "-Infinity", "null"})
    expect_has(
        jsonl_error(fmt::format("{{\"id\": \"a NaN \\\"\", \"labels\": [], "
                                "\"scores\": {{\"tools\": {}}}}}\n",
                                score),
                    ExitCode::diverged),
        "predictions.jsonl:1: document `a NaN \"`: its score of class `tools` is not finite");
  expect_has(jsonl_error("{\"id\": \"a\", \"labels\": [], \"scores\": {\"tools\": 1, \"0\": 1}}\n"),
             "class `tools` has two scores");
  expect_has(
      jsonl_error(
          "{\"id\": \"a\", \"labels\": [], \"scores\": {}}\n{\"id\": \"b\", \"labels\": []}\n"),
      "predictions.jsonl:2: has no \"scores\" where the first line has them");
  expect_has(jsonl_error("\n"), "no predicted document");
}

TEST_F(PredictionFiles, WhatIsWrittenReadsBackTheSame) {
  Predictions predictions;
  predictions.ids = {"plain", "with,comma", "quo\"te", "uni \xE2\x80\xA6", "unscored"};
  predictions.labels = {{0, 3, 6}, {}, {1}, {5, 2}, {}};
  predictions.scores = {
      {{0, 0.1f}, {3, 1.0f / 3}, {6, 1e-8f}}, {{1, 0.5f}}, {{1, 1}}, {{5, 0.7f}, {2, 0.7f}}, {}};
  for (auto& scores : predictions.scores) sort_scores(scores);
  const ClassWords words(taxonomy);
  std::string csv = submission_header({}) + "\n", jsonl;
  for (std::size_t d = 0; d < predictions.ids.size(); ++d) {
    csv += submission_line(predictions.ids[d], predictions.labels[d]) + "\n";
    jsonl += prediction_line(predictions.ids[d], predictions.labels[d],
                             std::span<const ClassScore>(predictions.scores[d]), words) +
             "\n";
  }
  const Predictions from_csv = read_predictions(folder.write("s.csv", csv), taxonomy),
                    from_jsonl = read_predictions(folder.write("p.jsonl", jsonl), taxonomy);
  EXPECT_EQ(from_csv.ids, predictions.ids);
  EXPECT_EQ(from_csv.labels, predictions.labels);
  EXPECT_EQ(from_jsonl.ids, predictions.ids);
  EXPECT_EQ(from_jsonl.labels, predictions.labels);
  ASSERT_EQ(from_jsonl.scores.size(), predictions.scores.size());
  for (std::size_t d = 0; d < predictions.scores.size(); ++d) {
    ASSERT_EQ(from_jsonl.scores[d].size(), predictions.scores[d].size());
    for (std::size_t i = 0; i < predictions.scores[d].size(); ++i) {
      EXPECT_EQ(from_jsonl.scores[d][i].class_id, predictions.scores[d][i].class_id);
      EXPECT_EQ(from_jsonl.scores[d][i].score, predictions.scores[d][i].score);  // bit for bit
    }
  }
}

TEST_F(PredictionFiles, SubmissionIsWhatTheCompetitionExpects) {
  EXPECT_EQ(submission_header({}), "pid,labels");
  EXPECT_EQ(submission_header({.header = "id,labels"}), "id,labels");
  EXPECT_EQ(submission_line("0", std::vector<std::int32_t>{0, 3}), "0,\"0,3\"");
  for (const char* const header : {"pid", ",labels", "pid,", "a,b,c"})
    expect_has(message_of(ExitCode::usage, [&] { submission_header({.header = header}); }), header);
}

TEST(ClassWords, NamesThatWouldNotReadBackAreWrittenAsIds) {
  const Folder folder;
  const Taxonomy taxonomy =
      Taxonomy::load(folder.write("labels.txt", "0\tall\n1\t42\n2\ta,b\n3\tclear\n"),
                     folder.write("label_hierarchy.txt", "0\t1\n0\t2\n0\t3\n"));
  const ClassWords words(taxonomy);
  EXPECT_EQ(words.word(1), "1");
  EXPECT_EQ(words.word(2), "2");
  EXPECT_EQ(words.word(3), "clear");
  EXPECT_EQ(words.find("42"), std::nullopt);  // digits are an id
  for (std::int32_t c = 0; c < 4; ++c) EXPECT_EQ(words.find(words.word(c)), c);
}

}  // namespace
}  // namespace gpuhpc
