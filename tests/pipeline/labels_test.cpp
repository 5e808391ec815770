// A few documents labelled by a person: chosen by `select`, given to `run`.
#include <set>

#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

class Labels : public Pipeline {
 protected:
  static void SetUpTestSuite() {
    set_up(6);  // quality is measured
    gzip_to("train/doc2labels.txt", root_ / "gold.txt");
    std::ifstream gold(root_ / "gold.txt");
    for (std::string id, classes; std::getline(gold, id, '\t') && std::getline(gold, classes);)
      classes_[id] = classes;
  }
  static void gzip_to(const std::string& file, const fs::path& to) {
    ASSERT_EQ(shell("gzip -dc " + (kSource / "data/debtags-topical" / file).string() + ".gz > " +
                    to.string())
                  .code,
              0);
  }
  static std::string select(const fs::path& run, const std::string& more) {
    const fs::path csv = root_ / "select.csv";
    const Result result =
        gpuhpc("select --run.dir " + run.string() + " --output.file " + csv.string() + more);
    EXPECT_EQ(result.code, 0) << result.output;
    return read(csv);
  }
  // The ids of a CSV of select behind its first rows, which are labelled already, and the CSV with
  // gold in the column `labels` of these.
  static std::vector<std::string> fill_in(const std::string& csv, const fs::path& filled,
                                          int labelled = 0) {
    std::vector<std::string> ids;
    std::ofstream out(filled);
    std::istringstream lines(csv);
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "id,labels,suggested,text");
    out << line << "\n";
    for (; labelled > 0 && std::getline(lines, line); --labelled) {
      EXPECT_NE(line.substr(line.find(','), 2), ",,") << line;
      out << line << "\n";
    }
    while (std::getline(lines, line)) {
      ids.push_back(line.substr(0, line.find(',')));
      EXPECT_EQ(line.substr(ids.back().size(), 2), ",,") << line;
      out << ids.back() << ",\"" << classes_.at(ids.back()) << "\""
          << line.substr(ids.back().size() + 1) << "\n";
    }
    return ids;
  }
  static inline std::map<std::string, std::string> classes_;  // of the training corpus, by id
};

TEST_F(Labels, ThatSelectAsksForCorrectTheModel) {
  const fs::path filled = root_ / "labels.csv", run = copied("corrected");
  const std::vector<std::string> ids =
      fill_in(select(root_ / "reference", " --select.documents 60"), filled);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 60u);
  const std::string with_labels = arguments(run) + " --input.labels " + filled.string();
  const Result result = gpuhpc(with_labels);
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("60 labelled documents, "));
  EXPECT_THAT(result.output, HasSubstr("test-encoding: finished before, skipped"));
  // Measured: .511 and .700; without labels .378 and .580.
  EXPECT_GT(metrics(run).at("example_f1").get<double>(), .48);
  EXPECT_GT(metrics(run).at("precision_at_1").get<double>(), .67);
  // Labels set how many leaves are expected; the softmax was flattened for the default.
  const Json settings = Json::parse(read(run / "model/gpuhpc/settings.json"));
  EXPECT_EQ(settings.at("softmax_leaves"), 1.5);
  EXPECT_GT(settings.at("expected_leaves"), 2);
  EXPECT_THAT(result.output, HasSubstr("took 1.5 leaves for expected; --decode.expected-leaves "));
  // Measured: .080
  EXPECT_LT(metrics(run).at("ece_best").get<double>(), .13);

  const Json changes = Json::parse(read(run / "samples.json")).at(0);  // in the report
  EXPECT_THAT(changes.at("about").get<std::string>(), HasSubstr("Of 300 documents"));
  std::int64_t given = 0;
  for (const Json& row : changes.at("rows")) {
    EXPECT_NE(row.at(2), row.at(3)) << row;
    given += row.at(1).get<std::int64_t>();
  }
  EXPECT_GT(given, 0);

  // `predict` gives what the run gave, and a text that was labelled its classes, however many
  // others get.
  const fs::path answers = root_ / "answers.jsonl";
  const auto predict = [&](const fs::path& texts, const std::string& more = "") {
    const Result predicted = gpuhpc("predict --model.dir " + (run / "model").string() +
                                    " --input.file " + texts.string() + " --output.file " +
                                    answers.string() + " --device.threads 1" + more);
    ASSERT_EQ(predicted.code, 0) << predicted.output;
  };
  predict(root_ / "input/test/corpus.txt");
  EXPECT_LT(largest_difference(run / "predictions.jsonl", answers), 1e-6);
  const Result refused =
      gpuhpc("predict --model.dir " + (run / "model").string() + " --input.file " +
             (root_ / "input/test/corpus.txt").string() + " --decode.expected-leaves 2.7");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("were corrected by labelled documents"));
  predict(root_ / "input/train/corpus.txt", " --decode.mode top-k --decode.k 5");
  const auto known = predictions(answers);
  for (const std::string& id : ids) {
    const auto classes = 1 + std::count(classes_.at(id).begin(), classes_.at(id).end(), ',');
    double sum = 0;
    for (const auto& [name, score] : known.at(id).at("scores").items()) sum += score.get<double>();
    EXPECT_EQ(sum, static_cast<double>(classes)) << id;
    EXPECT_EQ(std::ssize(known.at(id).at("labels")), classes) << id;
  }

  // On two ranks the same labels; the next documents are others.
  const fs::path two = root_ / "corrected-2";
  fs::copy(run, two, fs::copy_options::recursive);
  ASSERT_EQ(
      gpuhpc(arguments(two) + " --input.labels " + filled.string() + " --pipeline.force correction",
             2)
          .code,
      0);
  EXPECT_LT(largest_difference(run / "predictions.jsonl", two / "predictions.jsonl"), 1e-5);
  const std::vector<std::string> more =
      fill_in(select(run, " --select.documents 7 --input.labels " + filled.string()),
              root_ / "next.csv", 60);
  EXPECT_EQ(more.size(), 7u);
  for (const std::string& next : more) EXPECT_EQ(std::ranges::count(ids, next), 0) << next;
  // The labels before are in the new file, which alone is given to the next run.
  const Result both = gpuhpc(arguments(two) + " --input.labels " + (root_ / "next.csv").string() +
                             " --pipeline.to correction");
  ASSERT_EQ(both.code, 0) << both.output;
  EXPECT_THAT(both.output, HasSubstr("67 labelled documents, "));
  const Result nameless = gpuhpc("select --run.dir " + run.string() + " --output.file -");
  EXPECT_EQ(nameless.code, 2);
  EXPECT_THAT(nameless.output, HasSubstr("this run had labelled documents; name them here"));

  // Without them the run is what it was.
  ASSERT_EQ(gpuhpc(arguments(run)).code, 0);
  EXPECT_FALSE(fs::exists(run / "samples.json"));
  EXPECT_EQ(largest_difference(run / "predictions.jsonl", root_ / "reference/predictions.jsonl"),
            0);
}

TEST_F(Labels, OfTheTestTextsAreLeftOutOfTheFigures) {
  const fs::path input = root_ / "alone", labels = root_ / "some.txt", run = root_ / "alone-run";
  fs::copy(root_ / "input", input, fs::copy_options::recursive);
  fs::remove_all(input / "train");  // the test texts serve as the corpus
  ASSERT_EQ(
      shell("sed -n 1,40p " + (input / "test/doc2labels.txt").string() + " > " + labels.string())
          .code,
      0);
  const Result result =
      gpuhpc(arguments(run, input) + " --decode.maximum 4 --input.labels " + labels.string());
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("40 documents whose classes were given"));
  EXPECT_EQ(metrics(run).at("documents"), 60);

  // No text is encoded again, and `predict`, which encodes all of them, gives what the run gave.
  EXPECT_THAT(result.output, HasSubstr("whose scores are known: none is encoded"));
  const fs::path answers = root_ / "alone.jsonl";
  const Result predicted = gpuhpc(
      "predict --device.threads 1 --model.dir " + (run / "model").string() + " --input.file " +
      (input / "test/corpus.txt").string() + " --output.file " + answers.string());
  ASSERT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_LT(largest_difference(run / "predictions.jsonl", answers), 1e-6);

  // What the report says that labels changed is what the run gave.
  std::map<std::string, int> given;
  for (const auto& [id, row] : predictions(run / "predictions.jsonl"))
    for (const Json& name : row.at("labels")) ++given[name.get<std::string>()];
  const Json changes = Json::parse(read(run / "samples.json")).at(0).at("rows");
  EXPECT_GT(changes.size(), 5u);
  for (const Json& row : changes) EXPECT_EQ(row.at(3), given[row.at(0).get<std::string>()]) << row;
}

TEST_F(Labels, OfUnknownDocumentsOrForOtherScoresAreRefusedAtOnce) {
  const fs::path labels = root_ / "unknown.txt", run = root_ / "refused";
  const auto refused = [&](const std::string& text, const std::string& more) {
    std::ofstream(labels) << text;
    return gpuhpc(arguments(run) + " --input.labels " + labels.string() + more);
  };
  const Result unknown = refused("nobody\t1\n", "");
  EXPECT_EQ(unknown.code, 65);
  EXPECT_THAT(unknown.output, HasSubstr("document `nobody` is not in the training corpus"));
  EXPECT_FALSE(fs::exists(run / "stages"));
  EXPECT_EQ(refused(classes_.begin()->first + "\t1\n", " --pipeline.preset paper").code, 2);
}

}  // namespace
}  // namespace gpuhpc_test
