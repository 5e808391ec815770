// Every step of the `recommended` preset against NumPy, and the properties that ranks rely on.
#include <gmock/gmock.h>

#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "world.hpp"

namespace gpuhpc {
namespace {

class Recommended : public LabelWorlds {
 protected:
  Matrix input(const char* name) const { return matrix_of(world.json.at("inputs").at(name)); }
  Matrix expected(const char* name) const { return matrix_of(world.expected(name)); }
  std::int64_t paths() const { return std::ssize(world.taxonomy.paths()); }

  LexicalEvidence lexical() const {
    LexicalEvidence evidence(world.taxonomy);
    std::vector<std::int64_t> frequencies(static_cast<std::size_t>(evidence.terms()));
    for (std::int64_t d = 0; d < world.train; ++d)
      evidence.count(world.texts[static_cast<std::size_t>(d)], frequencies);
    evidence.set_frequencies(frequencies, world.train);
    return evidence;
  }
  // Posterior with the path vectors given; hubness and centred inputs are the reference's.
  Matrix posterior(const Matrix& documents, const Matrix& vectors) const {
    const PathModel model{vectors, world.expected("hubness").get<std::vector<float>>(), 20, .25,
                          .6};
    Matrix scores(documents.rows, paths());
    model.posterior(documents.view(), world.texts, lexical(), scores.view());
    return scores;
  }
};

TEST_P(Recommended, ClassTextsAndVectors) {
  const ClassTexts texts = five_class_texts(world.taxonomy);
  EXPECT_EQ(texts.texts, world.expected("class_texts").get<std::vector<std::string>>());
  expect_near(
      class_vectors(input("text_vectors").view(), texts.owner, world.taxonomy.size()).values,
      world.expected("class_vectors"), 1e-6);
}

TEST_P(Recommended, Centring) {
  Matrix classes = expected("class_vectors"), documents = input("documents");
  centre_all(classes.view(), .3);
  expect_near(classes.values, world.expected("centred_classes"), 1e-6);
  FixedSums sums(1, documents.columns);
  add_rows(rows_of(documents, 0, world.train), sums);
  centre_rows(documents.view(), common_part(mean_of(sums, world.train), .3));
  expect_near(documents.values, world.expected("centred_documents"), 1e-6);
}

TEST_P(Recommended, HubnessIsTheSameHoweverDocumentsAreDealt) {
  Matrix documents = expected("centred_documents");
  const Matrix vectors = path_vectors(world.taxonomy, expected("centred_classes").view());
  Matrix scores(documents.rows, paths());
  score_paths(documents.view(), vectors.view(), scores.view());
  TopScores whole(paths()), odd(paths()), even(paths()), merged(paths());
  whole.add(rows_of(scores, 0, world.train));
  for (std::int64_t d = 0; d < world.train; ++d) (d % 2 ? odd : even).add(rows_of(scores, d, 1));
  std::vector<float> gathered(odd.values().begin(), odd.values().end());
  gathered.insert(gathered.end(), even.values().begin(), even.values().end());
  merged.merge(gathered);
  EXPECT_EQ(plain(merged.values()), plain(whole.values()));
  expect_near(whole.means(), world.expected("hubness"), 1e-6);
}

TEST_P(Recommended, LexicalEvidence) {
  const LexicalEvidence evidence = lexical();
  Matrix found(std::ssize(world.texts), paths());
  evidence.add(world.texts, 1, found.view());
  expect_near(found.values, world.expected("lexical"), 1e-6);
  LexicalEvidence stored(world.taxonomy);
  stored.set_idf(evidence.idf());
  Matrix again(std::ssize(world.texts), paths());
  stored.add(world.texts, 1, again.view());
  EXPECT_EQ(again.values, found.values);
}

TEST_P(Recommended, PosteriorsAndRefinement) {
  Matrix documents = expected("centred_documents");
  const Matrix vectors = path_vectors(world.taxonomy, expected("centred_classes").view());
  Matrix first = posterior(documents, vectors);
  expect_near(first.values, world.expected("first_posterior"));
  FixedSums sums(paths(), documents.columns);
  add_soft_sums(rows_of(first, 0, world.train), rows_of(documents, 0, world.train), sums);
  const Matrix refined = refined_paths(vectors.view(), sums, 3);
  expect_near(refined.values, world.expected("refined_paths"));
  expect_near(posterior(documents, expected("refined_paths")).values, world.expected("posterior"));
}

TEST_P(Recommended, SoftSumsAreTheSameInAnyOrderOfBlocks) {
  Matrix documents = expected("centred_documents"), first = expected("first_posterior");
  FixedSums forwards(paths(), documents.columns), backwards(paths(), documents.columns),
      other(paths(), documents.columns);
  for (std::int64_t d = 0; d < 40; d += 8)
    add_soft_sums(rows_of(first, d, 8), rows_of(documents, d, 8), forwards);
  for (std::int64_t d = 32; d >= 0; d -= 8)
    add_soft_sums(rows_of(first, d, 8), rows_of(documents, d, 8), d == 16 ? other : backwards);
  for (std::size_t i = 0; i < other.words().size(); ++i) backwards.words()[i] += other.words()[i];
  EXPECT_EQ(plain<std::int64_t>(forwards.words()), plain<std::int64_t>(backwards.words()));
}

SparseMatrix sparse(const Matrix& dense, std::int64_t first, std::int64_t count) {
  SparseMatrix rows;
  rows.columns_count = dense.columns;
  for (std::int64_t i = first; i < first + count; ++i) {
    for (std::int64_t j = 0; j < dense.columns; ++j)
      if (dense.row(i)[static_cast<std::size_t>(j)] > 0) {
        rows.columns.push_back(static_cast<std::int32_t>(j));
        rows.values.push_back(dense.row(i)[static_cast<std::size_t>(j)]);
      }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  return rows;
}

TEST_P(Recommended, SmoothingByRowBlocks) {
  const Matrix own = expected("posterior"), neighbours = input("neighbours");
  Matrix all(world.train, paths()), next(world.train, paths()), smoothed(own.rows, paths());
  std::copy_n(own.values.begin(), all.values.size(), all.values.begin());
  const std::int64_t cut = 17;  // two owners
  for (int round = 0; round < 3; ++round) {
    smooth_rows(own.view().slice(0, cut), sparse(neighbours, 0, cut), all.view(), .7,
                rows_of(next, 0, cut));
    smooth_rows(own.view().slice(cut, world.train - cut),
                sparse(neighbours, cut, world.train - cut), all.view(), .7,
                rows_of(next, cut, world.train - cut));
    std::swap(all, next);
  }
  std::copy(all.values.begin(), all.values.end(), smoothed.values.begin());
  const std::int64_t test = own.rows - world.train;
  smooth_rows(own.view().slice(world.train, test), sparse(neighbours, world.train, test),
              all.view(), .7, rows_of(smoothed, world.train, test));
  expect_near(smoothed.values, world.expected("smoothed"), 1e-6);
}

TEST_P(Recommended, MarginalsTargetsAndPrototypes) {
  const Matrix posterior = expected("smoothed");
  Matrix marginals(posterior.rows, world.taxonomy.size()), targets(world.train, paths());
  path_marginals(world.taxonomy, posterior.view(), marginals.view());
  expect_near(marginals.values, world.expected("marginals"), 1e-6);
  FixedSums sums(1, paths());
  add_rows(posterior.view().slice(0, world.train), sums);
  sharpen_targets(posterior.view().slice(0, world.train), sums.matrix().values, targets.view());
  expect_near(targets.values, world.expected("targets"));
  const auto counts =
      world.json.at("inputs").at("generated_counts").get<std::vector<std::int64_t>>();
  expect_near(
      prototype_vectors(input("generated_sums").view(), counts, input("keyword_vectors").view(), .3)
          .values,
      world.expected("prototypes"), 1e-6);
}

TEST_P(Recommended, DecodersGiveTheSameSets) {
  const Matrix posterior = expected("smoothed"), marginals = expected("marginals");
  for (const auto& [name, sets] : world.expected("decoded").items()) {
    DecodeOptions options;
    options.mode = name.substr(0, name.find(' '));
    options.expected_leaves =
        options.mode == "expected-f1" ? std::stod(name.substr(name.find(' '))) : 1;
    const Decoder decoder(world.taxonomy, options);
    for (std::int64_t d = 0; d < posterior.rows; ++d) {
      std::vector<ClassId> labels = decoder.decode(marginals.row(d), posterior.row(d));
      std::sort(labels.begin(), labels.end());
      EXPECT_EQ(labels, sets.at(static_cast<std::size_t>(d)).get<ClassPath>())
          << name << ", document " << d;
    }
  }
}

TEST_P(Recommended, Stems) {
  for (const auto& [word, stem] : world.json.at("stems").items())
    EXPECT_EQ(crude_stem(word), stem.get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Labels, Recommended, testing::Values("made", "random"));

}  // namespace
}  // namespace gpuhpc
