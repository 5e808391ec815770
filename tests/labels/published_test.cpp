// TaxoClass's and TELEClass's steps against NumPy.
#include <gmock/gmock.h>

#include <algorithm>

#include "gpuhpc/labels/candidates.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/enrichment.hpp"
#include "gpuhpc/labels/refinement.hpp"
#include "world.hpp"

namespace gpuhpc {
namespace {

using Lists = std::vector<std::vector<std::int32_t>>;

class Published : public LabelWorlds {
 protected:
  Matrix input(const char* name) const {
    return matrix_of(world.json.at("published_inputs").at(name));
  }
  Lists lists(const char* name) const { return world.published(name).get<Lists>(); }
  Lists document_terms() const {
    return world.json.at("published_inputs").at("document_terms").get<Lists>();
  }
  TermCounts counts() const {
    TermCounts all(world.taxonomy.size(), 30);
    const Lists terms = document_terms(), cores = lists("cores");
    for (std::size_t d = 0; d < terms.size(); ++d)
      count_terms(world.taxonomy, terms[d], cores[d], all);
    return all;
  }
};

TEST_P(Published, Candidates) {
  const Matrix similarity = input("similarity");
  for (const auto& [key, options] : {std::pair{"candidates_teleclass", teleclass_candidates()},
                                     {"candidates_taxoclass", taxoclass_candidates()}})
    for (std::int64_t d = 0; d < similarity.rows; ++d) {
      const auto& expected = world.published(key).at(static_cast<std::size_t>(d));
      const auto found = find_candidates(world.taxonomy, similarity.row(d), options);
      ASSERT_EQ(found.size(), expected[0].size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].id, expected[0][i].get<ClassId>());
        EXPECT_NEAR(found[i].score, expected[1][i].get<double>(), 1e-6);
      }
    }
}

TEST_P(Published, CoreClassesAndMasks) {
  const Matrix similarity = input("similarity");
  std::vector<std::vector<Candidate>> candidates;
  std::vector<std::vector<float>> confidences;
  std::vector<ClassId> pair_class;
  std::vector<float> pair_confidence;
  for (std::int64_t d = 0; d < similarity.rows; ++d) {
    candidates.push_back(
        find_candidates(world.taxonomy, similarity.row(d), taxoclass_candidates()));
    confidences.emplace_back();
    for (const Candidate& c : candidates.back()) {
      confidences.back().push_back(core_confidence(world.taxonomy, similarity.row(d), c.id));
      pair_class.push_back(c.id);
      pair_confidence.push_back(confidences.back().back());
    }
  }
  std::reverse(pair_class.begin(), pair_class.end());  // any order gives the same medians
  std::reverse(pair_confidence.begin(), pair_confidence.end());
  const std::vector<float> medians =
      confidence_medians(world.taxonomy.size(), pair_class, pair_confidence);
  for (std::size_t c = 0; c < medians.size(); ++c) {
    if (world.published("medians")[c].is_null())
      EXPECT_TRUE(std::isinf(medians[c]));
    else
      EXPECT_NEAR(medians[c], world.published("medians")[c].get<float>(), 1e-6);
  }
  for (std::size_t d = 0; d < candidates.size(); ++d) {
    const auto cores = select_core_classes(candidates[d], confidences[d], medians, {true, false});
    EXPECT_EQ(cores, lists("cores")[d]);
    EXPECT_EQ(select_core_classes(candidates[d], confidences[d], medians, {false, false}),
              lists("cores_median_only")[d]);
    const TrainingLabels labels = training_labels(world.taxonomy, cores);
    EXPECT_EQ(labels.positives, lists("positives")[d]);
    EXPECT_EQ(labels.masked, lists("masked")[d]);
    EXPECT_EQ(training_labels(world.taxonomy, cores, MaskScope::cores).masked,
              lists("masked_below_cores")[d]);
  }
}

TEST_P(Published, TermCounts) {
  const TermCounts all = counts();
  const auto flat = [](const nlohmann::json& rows) {
    std::vector<std::int32_t> values;
    for (const auto& row : rows)
      for (const std::int32_t value : row) values.push_back(value);
    return values;
  };
  EXPECT_EQ(all.occurrences, flat(world.published("occurrences")));
  EXPECT_EQ(all.documents, flat(world.published("document_frequencies")));
  EXPECT_EQ(all.lengths, world.published("lengths").get<std::vector<std::int64_t>>());
}

TEST_P(Published, EnrichedTerms) {
  for (const auto score : {EnrichmentScore::paper, EnrichmentScore::code}) {
    EnrichmentOptions options =
        score == EnrichmentScore::code ? code_enrichment() : EnrichmentOptions{};
    options.terms = 6;
    const auto found = enrich_classes(world.taxonomy, counts(), input("class_vectors").view(),
                                      input("term_vectors").view(), options);
    const auto& expected =
        world.published(score == EnrichmentScore::code ? "enriched_code" : "enriched_paper");
    ASSERT_EQ(found.size(), expected.size());
    std::size_t terms = 0;
    for (std::size_t c = 0; c < found.size(); ++c) {
      ASSERT_EQ(found[c].size(), expected[c].size()) << c;
      for (std::size_t i = 0; i < found[c].size(); ++i, ++terms) {
        EXPECT_EQ(found[c][i].term, expected[c][i][0].get<std::int32_t>());
        EXPECT_NEAR(found[c][i].score, expected[c][i][1].get<float>(), 1e-5);
      }
    }
    EXPECT_GT(terms, 20U);
  }
}

TEST_P(Published, RefinedClassVectorsAndGapCuts) {
  Lists class_terms;
  for (const auto& row : world.published("enriched_paper")) {
    class_terms.emplace_back();
    for (const auto& entry : row) class_terms.back().push_back(entry[0]);
    std::sort(class_terms.back().begin(), class_terms.back().end());
  }
  const Matrix documents = input("document_vectors"), classes = input("class_vectors");
  FixedSums sums(classes.rows, classes.columns);
  std::vector<std::int64_t> used(static_cast<std::size_t>(classes.rows));
  const Lists cores = lists("cores"), terms = document_terms();
  const std::span<const std::vector<std::int32_t>> all_cores = cores, all_terms = terms;
  for (std::int64_t d = 0; d < documents.rows; d += 10) {
    const auto first = static_cast<std::size_t>(d);
    add_class_documents(world.taxonomy, documents.view().slice(d, 10), all_cores.subspan(first, 10),
                        all_terms.subspan(first, 10), class_terms, sums, used);
  }
  EXPECT_EQ(used, world.published("refined_counts").get<std::vector<std::int64_t>>());
  const Matrix vectors = mean_class_vectors(sums, used, classes.view());
  expect_near(vectors.values, world.published("refined_vectors"), 1e-6);

  Matrix similarity(documents.rows, vectors.rows);
  multiply_transposed(documents.view(), vectors.view(), similarity.view());
  std::vector<float> confidences;
  for (std::int64_t d = 0; d < documents.rows; ++d) {
    const GapCut cut = cut_at_gap(similarity.row(d), 3, 1);
    EXPECT_EQ(cut.classes, lists("cut3")[static_cast<std::size_t>(d)]);
    EXPECT_EQ(cut_at_gap(similarity.row(d), 5, 2).classes,
              lists("cut5_two")[static_cast<std::size_t>(d)]);
    confidences.push_back(cut.confidence);
  }
  expect_near(confidences, world.published("cut3_confidence"));
  std::vector<std::int64_t> kept;
  const std::vector<bool> keep = keep_confident(confidences, .75);
  for (std::size_t d = 0; d < keep.size(); ++d)
    if (keep[d]) kept.push_back(static_cast<std::int64_t>(d));
  EXPECT_EQ(kept, world.published("kept").get<std::vector<std::int64_t>>());
}

TEST_P(Published, TopDocumentMeansOnTwoOwners) {
  const Matrix documents = input("document_vectors");
  Matrix vectors = input("class_vectors");
  const std::int64_t cut = 23;
  TopDocuments merged(vectors.rows, 7);
  for (int round = 0; round < 3; ++round) {
    TopDocuments mine(vectors.rows, 7), theirs(vectors.rows, 7);
    Matrix scores(documents.rows, vectors.rows);
    multiply_transposed(documents.view(), vectors.view(), scores.view());
    mine.add(rows_of(scores, 0, cut), 0);
    theirs.add(rows_of(scores, cut, documents.rows - cut), cut);
    merged = TopDocuments(vectors.rows, 7);
    merged.merge(theirs.scores(), theirs.documents());
    merged.merge(mine.scores(), mine.documents());
    FixedSums sums(vectors.rows, vectors.columns);
    std::vector<std::int64_t> used(static_cast<std::size_t>(vectors.rows));
    add_top_documents(merged, documents.view().slice(0, cut), 0, sums, used);
    add_top_documents(merged, documents.view().slice(cut, documents.rows - cut), cut, sums, used);
    vectors = mean_class_vectors(sums, used, vectors.view());
  }
  expect_near(vectors.values, world.published("top_mean_vectors"));
  for (ClassId c = 0; c < vectors.rows; ++c)
    EXPECT_EQ(merged.of(c), world.published("top_documents")[static_cast<std::size_t>(c)]
                                .get<std::vector<std::int64_t>>());
}

INSTANTIATE_TEST_SUITE_P(Labels, Published, testing::Values("made", "random"));

}  // namespace
}  // namespace gpuhpc
