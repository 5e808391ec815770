// What labelled documents teach, against scikit-learn's Gaussian processes
// (data_tools/fixtures/make_correction.py), and how labels are read.
#include "gpuhpc/pipelines/label/given_labels.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/pipelines/label/inputs.hpp"

namespace gpuhpc {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const Taxonomy& five_classes() {
  static const Taxonomy taxonomy({"a", "b", "a1", "a2", "b1"}, {{0, 2}, {0, 3}, {1, 4}});
  return taxonomy;
}

class Correction : public ::testing::Test {
 protected:
  Correction() { std::ifstream(GPUHPC_FIXTURES "/correction.json") >> json_; }
  // Rows [first, last) of an array of the fixture.
  Matrix rows(const char* name, std::size_t first, std::size_t last) const {
    const auto& all = json_.at(name);
    Matrix matrix(static_cast<std::int64_t>(last - first),
                  static_cast<std::int64_t>(all.at(0).size()));
    for (std::size_t i = first; i < last; ++i)
      std::ranges::copy(all[i].get<std::vector<float>>(),
                        matrix.row(static_cast<std::int64_t>(i - first)).begin());
    return matrix;
  }
  // Of documents [first, last): their vectors and posteriors.
  Matrix compared(std::size_t first, std::size_t last) const {
    return text_and_posterior(rows("documents", first, last).view(),
                              rows("posterior", first, last).view());
  }
  nlohmann::json json_;
};

TEST_F(Correction, IsThatOfAGaussianProcessWithTheLeastNoiseThatLeavesOutAsWell) {
  const double leaves = json_.at("leaves"), of_softmax = json_.at("of_softmax");
  const Matrix truth = rows("truth", 0, 14);
  Matrix p = rows("marginals", 0, 14);
  to_probabilities(p.view(), leaves, of_softmax);
  FittedCorrection fitted =
      fit_correction(compared(0, 14), std::as_const(p).view(), truth.view(), leaves, of_softmax);
  EXPECT_EQ(fitted.noise, json_.at("noise").get<double>());
  EXPECT_NEAR(fitted.before, json_.at("before").get<double>(), 1e-6);
  EXPECT_NEAR(fitted.after, json_.at("after").get<double>(), 1e-6);
  EXPECT_EQ(fitted.correction.lift, 0);
  fitted.correction.lift = json_.at("lift");
  Matrix corrected = rows("marginals", 14, 20);
  fitted.correction.apply(five_classes(), rows("documents", 14, 20).view(),
                          rows("posterior", 14, 20).view(), corrected.view());
  const Matrix expected = rows("corrected", 0, 6);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_NEAR(corrected.values[i], expected.values[i], 2e-6) << i;
}

TEST_F(Correction, LiftsTheMoreTheMoreLabelsThereAreFromAHundredOn) {
  const Matrix documents = compared(0, 14), classes = rows("truth", 0, 14);
  for (const auto& [n, lift] : {std::pair(140, .0841180591), {56, 0.}}) {  // ln(140 / 100) / 4
    Matrix shown(n, documents.columns), p(n, 5), truth(n, 5);
    std::ranges::fill(p.values, .3F);
    for (std::int64_t i = 0; i < n; ++i) {
      std::ranges::copy(documents.row(i % 14), shown.row(i).begin());
      std::ranges::copy(classes.row(i % 14), truth.row(i).begin());
    }
    const FittedCorrection fitted =
        fit_correction(shown, std::as_const(p).view(), truth.view(), 1, 1);
    EXPECT_LT(fitted.after, fitted.before);
    EXPECT_NEAR(fitted.correction.lift, lift, 1e-9);
  }
}

TEST_F(Correction, IsNoneWhereTheLabelsSayNothingOfEachOther) {
  // at right angles; half have the first class
  Matrix documents(140, 141), p(140, 5), truth(140, 5);
  for (std::int64_t i = 0; i < 140; ++i) {
    documents.row(i)[static_cast<std::size_t>(i)] = 1;
    truth.row(i)[0] = i % 2 == 0 ? 1 : 0;
    p.row(i)[0] = i % 2 == 0 ? .7F : .3F;
  }
  const FittedCorrection fitted =
      fit_correction(documents, std::as_const(p).view(), truth.view(), 1, 1);
  EXPECT_TRUE(std::isinf(fitted.noise));
  EXPECT_EQ(fitted.after, fitted.before);
  EXPECT_EQ(fitted.correction.lift, 0);
  Matrix marginals(1, 5);
  marginals.values = {.7F, .2F, .3F, .4F, .2F};
  const std::vector<float> before = marginals.values;
  const Matrix vector(1, 138), posterior(1, 3);
  fitted.correction.apply(five_classes(), vector.view(), posterior.view(), marginals.view());
  for (std::size_t c = 0; c < before.size(); ++c) EXPECT_NEAR(marginals.values[c], before[c], 1e-6);
}

// By hand: a class that moves up keeps what it moved, however much less the others are.
TEST_F(Correction, LeavesADocumentAClass) {
  Matrix vector(1, 2), posterior(1, 3);
  vector.values[0] = posterior.values[0] = 1;
  LabelCorrection correction;
  correction.documents = text_and_posterior(vector.view(), posterior.view());
  correction.weights = Matrix(5, 1);
  correction.weights.values = {.2F, -.9F, -.9F, -.7F, -.4F};
  Matrix marginals(1, 5);
  marginals.values = {.6F, .3F, .2F, .1F, .3F};  // with L = 1 of both, odds m to 1 - m
  correction.apply(five_classes(), vector.view(), posterior.view(), marginals.view());
  const double move = .2 * 2.25 * std::pow(.6, .25) * std::pow(.4, .75);
  EXPECT_NEAR(marginals.values[0], .6 + .4 * std::tanh(move / .4), 1e-6);
  EXPECT_NEAR(marginals.values[1], .3e-3, 1e-6);
}

TEST_F(Correction, ExpectsAsManyLeavesAsWhatTheLabelledDocumentsStandFor) {
  const Matrix all = rows("documents", 0, 20), labelled = rows("documents", 0, 14),
               marginals = rows("marginals", 0, 14), truth = rows("truth", 0, 14);
  const std::vector<double> shares = shares_of_nearest(all.view(), labelled.view());
  EXPECT_THAT(shares, Pointwise(DoubleNear(1e-12), json_.at("shares").get<std::vector<double>>()));
  EXPECT_NEAR(leaves_for(marginals.view(), truth.view(), shares),
              json_.at("matched_leaves").get<double>(), 2e-4);
}

TEST_F(Correction, DocumentsToLabelLowerTheVarianceMost) {
  const auto given = json_.at("given").get<std::vector<std::size_t>>();
  const auto uncertainty = json_.at("uncertainty").get<std::vector<double>>();
  std::vector<std::size_t> order = given;
  for (std::size_t i = 0; i < uncertainty.size(); ++i)
    if (!std::ranges::count(given, i)) order.push_back(i);
  Matrix documents(20, 9);
  std::vector<double> weights;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::ranges::copy(compared(order[i], order[i] + 1).values,
                      documents.row(static_cast<std::int64_t>(i)).begin());
    weights.push_back(uncertainty[order[i]]);
  }
  std::vector<std::size_t> chosen;
  for (const std::int64_t row : select_documents(documents.view(), weights, std::ssize(given), 4))
    chosen.push_back(order[static_cast<std::size_t>(row)]);
  EXPECT_EQ(chosen, json_.at("chosen").get<std::vector<std::size_t>>());
  EXPECT_EQ(select_documents(documents.view(), weights, 2, 50).size(), 18u);  // no more are there
}

TEST(GivenLabels, AreReadFromTabsAndFromTheCsvOfSelect) {
  const ScratchFolder folder;
  write_text_file(folder / "labels.txt", "d7\ta2,b\nd1\t4\n");
  write_text_file(
      folder / "labels.csv",
      "id,labels,suggested,text\nd7,\"a2,b\",b1,\"one, two\"\nd9,,a1,three\n\"d1\",b1,,x\n");
  for (const char* name : {"labels.txt", "labels.csv"}) {
    const GivenLabels labels = read_given_labels(folder / name, five_classes());
    EXPECT_THAT(labels.ids, ElementsAre("d7", "d1")) << name;
    EXPECT_THAT(labels.classes, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(1, 4))) << name;
    EXPECT_EQ(labels.unfilled, name == std::string("labels.csv") ? 1 : 0);
  }
}

TEST(GivenLabels, OfSeveralParentsThoseThatAreNamedCount) {
  const ScratchFolder folder;
  const Taxonomy two_parents({"a", "b", "x"}, {{0, 2}, {1, 2}});
  write_text_file(folder / "labels.txt", "d1\ta,x\nd2\tx\n");
  EXPECT_THAT(read_given_labels(folder / "labels.txt", two_parents).classes,
              ElementsAre(ElementsAre(0, 2), ElementsAre(0, 1, 2)));
  // What one class brings is not named: the order of a row means nothing.
  const Taxonomy shared({"a", "b", "d", "e"}, {{0, 3}, {0, 2}, {1, 2}});
  write_text_file(folder / "labels.txt", "d1\td,e\nd2\te,d\n");
  EXPECT_THAT(read_given_labels(folder / "labels.txt", shared).classes,
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1, 2, 3)));
}

TEST(GivenLabels, ATableThatIsFilledInIsToldFromOneThatIsNot) {
  const ScratchFolder folder;
  const auto holds = [&](const std::string& text) {
    write_text_file(folder / "l.csv", text);
    return holds_labels(folder / "l.csv");
  };
  EXPECT_TRUE(holds("id,labels,suggested,text\nd1,,a,one\nd2,a1,,two\n"));
  EXPECT_FALSE(holds("id,labels,suggested,text\nd1,,a,one\n,,,\n"));
  // Not a table of select's: somebody's work, perhaps.
  EXPECT_TRUE(holds("no,table\n"));
  EXPECT_TRUE(holds("id;labels;suggested;text\nd1;a1;a;one\n"));
}

TEST(GivenLabels, TestTextsThatWereLabelledAreFoundByTheirTexts) {
  const ScratchFolder folder;
  write_text_file(folder / "train.txt", "d1\tone\nd2\ttwo\nd3\tthree\n");
  write_text_file(folder / "test.txt", "t1\ttwo\nd1\tanother\nt2\tthree\nt3\ttwo\n");
  const std::vector<std::string> labelled{"d2", "d1"};
  EXPECT_THAT(
      documents_with_labelled_texts(folder / "train.txt", folder / "test.txt", {}, labelled),
      ElementsAre("t1", "t3"));
}

TEST(GivenLabels, OfIdsThatBothCorporaHaveAreThoseOfTheTrainingCorpus) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    create_folder((folder / name).parent_path());
    write_text_file(folder / name, text);
    return (folder / name).string();
  };
  write("labels.txt", "0\ta\n1\ta1\n");
  write("label_hierarchy.txt", "0\t1\n");
  write("test/corpus.txt", "d2\tanother two\nd3\tthree\n");
  const std::string train = write("train/corpus.txt", "d1\tone\nd2\ttwo\n"),
                    labels = write("given.txt", "d1\t0\nd2\t1\n");
  const LabelInputs inputs = find_inputs({.dir = folder.path().string(), .labels = labels}, {},
                                         true, *make_single_communicator());
  EXPECT_THAT(inputs.warnings,
              ElementsAre("1 of the 2 ids in " + labels +
                          " are in both corpora; their labels are taken to belong to the "
                          "documents of " +
                          train + "."));
}

TEST(GivenLabels, RefusesWhatIsWrongWithThePlace) {
  const ScratchFolder folder;
  const auto refused = [&](const char* name, const std::string& text) {
    write_text_file(folder / name, text);
    return error_of(ExitCode::bad_data, [&] { read_given_labels(folder / name, five_classes()); });
  };
  EXPECT_THAT(refused("l.txt", "d1\ta1\nd2 a2\n"), HasSubstr("l.txt:2: no tab"));
  EXPECT_THAT(refused("l.txt", "\ta1\n"), HasSubstr("l.txt:1: the document id is empty"));
  EXPECT_THAT(refused("l.txt", "d1\ta1\nd1\ta2\n"), HasSubstr("l.txt:2: document `d1`"));
  EXPECT_THAT(refused("l.txt", "d1\ta9\n"), HasSubstr("l.txt:1: unknown class `a9`"));
  EXPECT_THAT(refused("l.txt", "\n"), HasSubstr("no document is labelled"));
  EXPECT_THAT(refused("l.csv", "id,labels\nd1,\n,\n"), HasSubstr("no document is labelled"));
  EXPECT_THAT(refused("l.csv", "id,labels\n,a1\n"), HasSubstr("l.csv:2: labels without the id"));
  EXPECT_THAT(refused("l.csv", "id,labels\nd1\n"), ::testing::EndsWith("line breaks"));
  EXPECT_THAT(refused("l.csv", "id,classes\nd1,a1\n"),
              HasSubstr("no column `labels` in the first line, which names: id, classes; give"));
}

}  // namespace
}  // namespace gpuhpc
