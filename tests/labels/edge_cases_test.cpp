// Cases small enough to work out by hand.
#include <gmock/gmock.h>

#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/labels/candidates.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/enrichment.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/named_texts.hpp"
#include "gpuhpc/labels/pseudo_documents.hpp"
#include "gpuhpc/labels/refinement.hpp"
#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Taxonomy small_tree() {
  return Taxonomy({"media", "sound", "video_player", "office"}, {{0, 1}, {0, 2}});
}

std::vector<ClassId> decode(const Taxonomy& taxonomy, DecodeOptions options,
                            std::vector<float> marginals, std::vector<float> posterior = {}) {
  return Decoder(taxonomy, options).decode(marginals, posterior);
}

TEST(Decoding, ASingleClassIsTakenThoughTwoAreAskedFor) {
  const Taxonomy one({"only"}, {});
  for (const char* mode : {"expected-f1", "chain", "threshold", "top-k"}) {
    DecodeOptions options;
    options.mode = mode;
    EXPECT_THAT(decode(one, options, {1.f}, {1.f}), ElementsAre(0)) << mode;
  }
}

// Scores that a model is sure of are no person's labels: they are decoded as the options say.
TEST(Decoding, WhatAPersonSaidIsNeitherCutNorFilledUp) {
  const Taxonomy t = small_tree();
  for (const char* mode : {"expected-f1", "chain", "threshold", "top-k"}) {
    DecodeOptions options;
    options.mode = mode, options.minimum = 2, options.maximum = 2, options.k = 2;
    const Decoder decoder(t, options);
    const std::vector<float> one{0, 0, 0, 1}, three{1, 1, 0, 1};
    EXPECT_THAT(decoder.decode(one, {}, true), ElementsAre(3)) << mode;
    EXPECT_THAT(decoder.decode(three, {}, true), ElementsAre(0, 3, 1)) << mode;
  }
  DecodeOptions options;
  options.mode = "top-k", options.k = 2;
  EXPECT_THAT(decode(t, options, {0, 0, 0, 1}), ElementsAre(3, 0));
  EXPECT_THAT(decode(t, options, {1, 1, 0, 1}), ElementsAre(0, 3));
}

TEST(Decoding, AClassWithoutParentOrChildMayStandAlone) {
  DecodeOptions options;
  options.minimum = 2;
  EXPECT_THAT(decode(Taxonomy({"a", "b", "c"}, {}), options, {.1F, .7F, .2F}), ElementsAre(1));
  // `office` stands alone; of `sound` its path has two.
  EXPECT_THAT(decode(small_tree(), options, {.1F, .05F, .05F, .9F}), ElementsAre(3));
  EXPECT_THAT(decode(small_tree(), options, {.9F, .2F, .05F, .1F}), ElementsAre(0, 1));
}

TEST(Scores, ThatAreNotFiniteAreNamedAndNeverDecoded) {
  const Taxonomy t = small_tree();
  Matrix posterior(2, 3), marginals(2, 4);
  posterior.values = {.2F, .3F, .5F, .1F, NAN, .9F};  // of media sound, media video_player, office
  path_marginals(t, std::as_const(posterior).view(), marginals.view());
  const auto code_and_words = [&] {
    try {
      check_scores(std::as_const(marginals).view(), t,
                   [](std::int64_t row) { return fmt::format("document {}", row); });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::diverged);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(code_and_words(),
              testing::HasSubstr("document 1: its score of class `media` is not finite"));
  marginals.row(1)[0] = 1;
  EXPECT_THAT(code_and_words(), testing::HasSubstr("class `video_player`"));
  for (const char* mode : {"expected-f1", "chain", "threshold", "top-k"})
    EXPECT_THROW(decode(t, {.mode = mode}, {1, .2F, NAN, .1F}), Error) << mode;
  marginals.row(1)[2] = INFINITY;
  EXPECT_THAT(code_and_words(), testing::HasSubstr("class `video_player`"));
  marginals.row(1)[2] = 0;
  EXPECT_EQ(code_and_words(), "");
}

TEST(Decoding, TiesGoToTheAncestorThenToTheLowerId) {
  const Taxonomy t({"leaf", "root", "other"}, {{1, 0}});
  DecodeOptions options;
  options.mode = "top-k";
  options.k = 2;
  EXPECT_THAT(decode(t, options, {.4f, .4f, .4f}), ElementsAre(1, 2));
  EXPECT_THAT(decode(Taxonomy({"a", "b", "c"}, {}), options, {.2f, .4f, .4f}), ElementsAre(1, 2));
}

TEST(Decoding, ExpectedF1ByHand) {
  // p = .9, .6, .1: F(1) = 1.8/2.6 = .692, F(2) = 3/3.6 = .833, F(3) = 3.2/4.6 = .696.
  const Taxonomy flat({"a", "b", "c"}, {});
  DecodeOptions options;
  options.expected_leaves = 1;
  options.minimum = 1;
  EXPECT_THAT(decode(flat, options, {.1f, .9f, .6f}), ElementsAre(1, 2));
  options.maximum = 1;
  EXPECT_THAT(decode(flat, options, {.1f, .9f, .6f}), ElementsAre(1));
}

// p = 1 - .7^3 = .657 of three leaves, its odds to .7^1.316 that about one misses: .512.
TEST(Decoding, ExpectedLeavesRaiseProbabilities) {
  EXPECT_NEAR(membership(.3, 3), .657, 1e-12);
  DecodeOptions options;
  options.expected_leaves = 3;
  const auto p =
      Decoder(small_tree(), options).probabilities(std::vector<float>{.3f, 0.f, 1.f, 1.0000001f});
  EXPECT_NEAR(p[0], .5123323, 1e-6);
  EXPECT_EQ(p[1], 0.f);
  EXPECT_EQ(p[2], 1.f);
  EXPECT_EQ(p[3], 1.f);  // rounding above 1 is no NaN
}

// 1 - .15^10 and 1 - .01^10 are 1 in floats: the best class would be that of the lowest number.
TEST(Decoding, MembershipsThatFloatsRoundToOneStayApart) {
  Matrix rows(2, 4);
  for (std::int64_t i = 0; i < 2; ++i)
    std::ranges::copy(std::vector<float>{.85f, .2f, .99f, i == 0 ? 1.f : .3f}, rows.row(i).begin());
  to_memberships(rows.view(), 10);
  EXPECT_EQ(rows.row(0)[3], 1.f);
  EXPECT_EQ(rows.row(1)[2], 1.f);
  EXPECT_LT(rows.row(0)[2], rows.row(0)[3]);
  for (std::int64_t i = 0; i < 2; ++i) {
    EXPECT_LT(rows.row(i)[0], rows.row(i)[2]);
    EXPECT_NEAR(rows.row(i)[0], 1, 3e-7);
    EXPECT_NEAR(rows.row(i)[1], 1 - std::pow(.8, 10), 1e-6);
  }
}

TEST(Decoding, OnADagTheBestPathIsAddedNotEveryAncestor) {
  // 2 has parents 0 and 1; paths: 0-2, 0-3, 1-2, 1-4.
  const Taxonomy dag({"a", "b", "shared", "x", "y"}, {{0, 2}, {1, 2}, {0, 3}, {1, 4}});
  DecodeOptions options;
  options.minimum = 1;
  options.maximum = 1;
  options.expected_leaves = 1;
  EXPECT_THAT(decode(dag, options, {.4f, .6f, .9f, .05f, .05f}, {.35f, .05f, .55f, .05f}),
              ElementsAre(2, 1));
  EXPECT_THAT(decode(dag, options, {.6f, .4f, .9f, .05f, .05f}),
              ElementsAre(2, 0));  // without a posterior: the likelier parent
}

TEST(Decoding, ChainStopsWhereTheNextClassIsMoreLikelyWrong) {
  const Taxonomy line({"a", "b", "c", "d"}, {{0, 1}, {1, 2}, {2, 3}});
  DecodeOptions options;
  options.mode = "chain";
  EXPECT_THAT(decode(line, options, {.9f, .8f, .1f, .05f}), ElementsAre(0, 1));
  EXPECT_THAT(decode(line, options, {.9f, .8f, .8f, .7f}), ElementsAre(0, 1, 2, 3));
  options.minimum = 1;
  EXPECT_THAT(decode(line, options, {.9f, .1f, .1f, .05f}), ElementsAre(0));
}

TEST(Decoding, ThresholdTakesTheBestClassWhenNonePasses) {
  DecodeOptions options;
  // of memberships .51, .19, .36, .64 and .91, .19, .75, .64: .42, .17, .31, .52; .75, .17, .6, .52
  options.mode = "threshold";
  options.expected_leaves = 2;
  options.threshold = .55;
  EXPECT_THAT(decode(small_tree(), options, {.3f, .1f, .2f, .4f}), ElementsAre(3));
  EXPECT_THAT(decode(small_tree(), options, {.7f, .1f, .5f, .4f}), ElementsAre(0, 2));
}

TEST(Decoding, ContradictingOptionsAreRefused) {
  DecodeOptions options;
  options.minimum = 5;
  options.maximum = 4;
  EXPECT_THROW(Decoder(small_tree(), options), Error);
}

TEST(Decoding, OptionsReadFromTheCommandLine) {
  DecodeOptions options;
  config::OptionSet set;
  declare(set.section("decode", "labels"), options);
  set.parse("",
            {"--decode.mode", "chain", "--decode.expected-leaves", "3", "--decode.minimum", "1"});
  EXPECT_EQ(options.mode, "chain");
  EXPECT_EQ(options.expected_leaves, 3);
  EXPECT_EQ(options.minimum, 1);
  EXPECT_THROW(set.parse("", {"--decode.mode", "guess"}), Error);
  EXPECT_THROW(set.parse("", {"--decode.threshold", "2"}), Error);
}

TEST(Decoding, WhatTheModeDoesNotReadIsRefused) {
  const auto read_by = [](const std::string& option) {
    std::string modes;
    for (const std::string mode : {"expected-f1", "chain", "threshold", "top-k"}) {
      DecodeOptions options;
      config::OptionSet set;
      set.add("labels", options);
      set.parse("", {"--decode.mode=" + mode, option});
      try {
        options.refuse_unread(set);
        modes += mode + " ";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("--decode.mode " + mode + " does not read"));
      }
    }
    return modes;
  };
  EXPECT_EQ(read_by("--decode.expected-leaves=3"), "expected-f1 chain threshold top-k ");
  EXPECT_EQ(read_by("--decode.minimum=1"), "expected-f1 chain ");
  EXPECT_EQ(read_by("--decode.maximum=7"), "expected-f1 ");
  EXPECT_EQ(read_by("--decode.threshold=.3"), "threshold ");
  EXPECT_EQ(read_by("--decode.k=5"), "top-k ");
}

TEST(Lexical, TokensAndEvidenceByHand) {
  EXPECT_THAT(lexical_tokens("The Games of Editing, a 3D-STORY; x"),
              ElementsAre("gam", "edit", "3d", "story"));
  EXPECT_THAT(lexical_tokens(""), IsEmpty());
  LexicalEvidence lexical(small_tree());  // leaves: sound, video player, office
  ASSERT_EQ(lexical.terms(), 4);
  std::vector<std::int64_t> frequencies(4);
  lexical.count("a video of a sound and video", frequencies);  // a word counts once a document
  lexical.count("sounds", frequencies);
  lexical.set_frequencies(frequencies, 2);
  const double video = std::log(3. / 2) + .1, player = std::log(3.) + .1;
  std::vector<float> evidence(3);
  lexical.evidence("The best VIDEO", evidence);
  EXPECT_EQ(evidence[0], 0.f);
  EXPECT_NEAR(evidence[1], video / (video + player), 1e-6);
  lexical.evidence("", evidence);
  EXPECT_THAT(evidence, ElementsAre(0.f, 0.f, 0.f));
  EXPECT_THROW(lexical.set_idf(std::vector<float>(3)), Error);
}

TEST(NamedTexts, TheOnlyPathOfWholeEvidenceIsNamed) {
  const auto named = [](std::vector<float> evidence) { return named_path(evidence); };
  EXPECT_EQ(named({0, .4F, 1, .2F, 0}), 2);
  EXPECT_EQ(named({1, .4F, .9F, .2F, 0}), 0);
  EXPECT_EQ(named({1, 0, 1, 0, 0}), std::nullopt);
  EXPECT_EQ(named({0, .4F, .9F, .2F, 0}), std::nullopt);
}

NamedTexts two_texts(std::vector<std::int64_t> named) {
  return {2, 5, {.3F, .9F, .5F, .7F, .5F, 1.2F, .3F, .32F, .1F, .7F}, std::move(named)};
}
const std::vector<float> hubness_of_five{1, .8F, .2F, .4F, .2F};

TEST(NamedTexts, RankByScoresLessHubnessWhereAnEqualScoreTakesNoPlace) {
  const auto rank = [](double csls) {
    return mean_reciprocal_rank(two_texts({2, 1}), hubness_of_five, csls);
  };
  EXPECT_DOUBLE_EQ(rank(.3), (1. / 3 + 1. / 4) / 2);  // .66 .58 before .44; all but -.02 before .06
  EXPECT_DOUBLE_EQ(rank(.9), (1. / 2 + 1. / 5) / 2);
}

// The figures of scipy.optimize.minimize_scalar, bounded to [0, 1].
TEST(NamedTexts, CslsOfTheLargestLikelihood) {
  const auto csls = [](std::vector<std::int64_t> named, double temperature) {
    return likeliest_csls(two_texts(std::move(named)), hubness_of_five, temperature);
  };
  EXPECT_NEAR(csls({2, 0}, 2.7), .238211, 2e-6);
  EXPECT_NEAR(csls({2, 0}, 7), .493386, 2e-6);
  EXPECT_NEAR(csls({3, 2}, 7), .984552, 2e-6);
  EXPECT_EQ(csls({0, 1}, 7), 0);
  EXPECT_EQ(csls({2, 2}, 7), 1);
  EXPECT_NEAR(fitted_csls(two_texts({2, 0}), hubness_of_five, 7, .4, .3),
              .4 + .3 * 2 / 102 * (.493386 - .4), 1e-7);
}

TEST(Lexical, ANameOfStopWordsGivesNoEvidence) {
  LexicalEvidence lexical(Taxonomy({"other", "the_general"}, {}));
  std::vector<float> evidence(2, 7.f);
  lexical.evidence("other general the", evidence);
  EXPECT_THAT(evidence, ElementsAre(0.f, 0.f));
}

TEST(Scoring, HubnessOfFewDocumentsIsTheirMeanAndOfNoneZero) {
  TopScores top(2, 10);
  EXPECT_THAT(top.means(), ElementsAre(0.f, 0.f));
  const std::vector<float> scores{.5f, -1.f, .25f, -2.f};
  top.add({scores.data(), 2, 2});
  EXPECT_THAT(top.means(), ElementsAre(.375f, -1.5f));
}

TEST(Scoring, OnePathHasAllTheMass) {
  const Taxonomy one({"only"}, {});
  Matrix logits(2, 1), marginals(2, 1);
  logits.values = {-300.f, 80.f};
  softmax_rows(logits.view());
  EXPECT_THAT(logits.values, ElementsAre(1.f, 1.f));
  path_marginals(one, logits.view(), marginals.view());
  EXPECT_THAT(marginals.values, ElementsAre(1.f, 1.f));
}

// sigmoid(0) = .5, sigmoid(exp(0)) = .731059; far out both stay numbers.
TEST(Scoring, LinksAreSigmoidAndSigmoidOfExp) {
  const std::vector<float> documents{1.f}, vectors{0.f, 1.f, 1.f}, bias{0.f, 99.f, -101.f};
  Matrix probabilities(1, 3);
  class_probabilities({documents.data(), 1, 1}, {vectors.data(), 3, 1}, bias, probabilities.view());
  EXPECT_THAT(probabilities.values, testing::Pointwise(testing::FloatNear(1e-6f), {.5f, 1.f, 0.f}));
  class_probabilities({documents.data(), 1, 1}, {vectors.data(), 3, 1}, bias, probabilities.view(),
                      Link::sigmoid_exp);
  EXPECT_THAT(probabilities.values,
              testing::Pointwise(testing::FloatNear(1e-6f), {.731059f, 1.f, .5f}));
}

// Of three draws from a posterior of which a quarter lies below the class, one hits it with 1 -
// .75^3.
TEST(Scoring, LeafProbabilitiesAreThoseOfSeveralDraws) {
  const Taxonomy two({"a", "b"}, {});
  Matrix posterior(1, 2), probabilities(1, 2);
  posterior.values = {.25f, .75f};
  leaf_probabilities(two, 3, posterior.view(), probabilities.view());
  EXPECT_THAT(probabilities.values,
              testing::Pointwise(testing::FloatNear(1e-6f), {.578125f, .984375f}));
}

TEST(Scoring, ProductsOfAnyShapeEqualPlainSums) {
  for (const std::int64_t width : {1, 3, 4, 17, 64}) {
    Matrix a(7, width), b(5, width), products(7, 5);
    for (std::size_t i = 0; i < a.values.size(); ++i)
      a.values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    for (std::size_t i = 0; i < b.values.size(); ++i)
      b.values[i] = static_cast<float>(std::cos(static_cast<double>(3 * i)));
    multiply_transposed(a.view(), b.view(), products.view());
    FixedSums sums(5, width);
    Matrix weights(7, 5);
    std::copy(products.values.begin(), products.values.end(), weights.values.begin());
    add_soft_sums(weights.view(), a.view(), sums);
    for (std::int64_t i = 0; i < 7; ++i)
      for (std::int64_t j = 0; j < 5; ++j)
        EXPECT_NEAR(products.row(i)[static_cast<std::size_t>(j)], dot(a.row(i), b.row(j)), 1e-5);
    for (std::int64_t j = 0; j < 5; ++j)
      for (std::int64_t w = 0; w < width; ++w) {
        double sum = 0;
        for (std::int64_t i = 0; i < 7; ++i)
          sum +=
              weights.row(i)[static_cast<std::size_t>(j)] * a.row(i)[static_cast<std::size_t>(w)];
        EXPECT_NEAR(sums.value(j, w), sum, 2e-5);
      }
  }
}

TEST(Scoring, FixedSumsHoldMillionsOfUnitVectors) {
  FixedSums sums(1, 1);
  sums.add(0, 0, 4e9);
  sums.add(0, 0, -3e-9);
  EXPECT_DOUBLE_EQ(sums.value(0, 0), 4e9);
  EXPECT_EQ(mean_of(sums, 0)[0], 0.f);
}

TEST(Smoothing, ARowWithoutNeighboursKeepsItsOwn) {
  Matrix own(1, 2), all(1, 2), out(1, 2);
  own.values = {.25f, .75f};
  SparseMatrix none;
  none.columns_count = 1;
  none.offsets = {0, 0};
  smooth_rows(own.view(), none, all.view(), .5, out.view());
  EXPECT_EQ(out.values, own.values);
}

TEST(ClassTexts, ByHand) {
  const Taxonomy t({"a_root", "mid", "low"}, {{0, 1}, {1, 2}});
  EXPECT_THAT(five_texts(t, 2),
              ElementsAre("low", "a root > mid > low", "mid low", "this is about low.",
                          "this is about low, a kind of mid, a root."));
  EXPECT_THAT(five_texts(t, 0), ElementsAre("a root", "a root", "a root", "this is about a root.",
                                            "this is about a root."));
  const std::vector<std::string> terms{"x y", "z"};
  EXPECT_EQ(keyword_text(t, 1, terms), "a root > mid: x y, z");
  EXPECT_EQ(keyword_text(t, 1, {}), "a root > mid");
  EXPECT_EQ(multi_gpu_text(t, 0, terms),
            "The product category is a root, associated with keywords: x y, z");
  const std::vector<std::string> descriptions{"", "A middle.", ""};
  const ClassTexts names = name_class_texts(t, descriptions);
  EXPECT_THAT(names.texts, ElementsAre("a root", "mid", "A middle.", "low"));
  EXPECT_THAT(names.owner, ElementsAre(0, 1, 1, 2));
  const std::vector<std::vector<std::string>> all_terms{{}, terms, {}};
  EXPECT_THAT(term_class_texts(t, all_terms).texts,
              ElementsAre("a root", "mid", "x y", "z", "low"));
}

TEST(Candidates, ASecondParentThatWasNotExpandedContributesNothing) {
  // Root level keeps 3 of 4 roots; class 4 is a child of root 0 (kept) and root 3 (not kept).
  const Taxonomy t({"r0", "r1", "r2", "r3", "shared"}, {{0, 4}, {3, 4}});
  const auto found =
      find_candidates(t, std::vector<float>{.5f, .6f, .7f, .4f, .3f}, teleclass_candidates());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].id, 2);
  EXPECT_EQ(found[3].id, 4);
  EXPECT_EQ(found[3].level, 2);
  EXPECT_NEAR(found[3].score, std::exp(.8), 1e-6);
  EXPECT_THAT(best_path_core(t, found), ElementsAre(2));
}

TEST(Candidates, BestTextCounts) {
  const std::vector<float> documents{1, 0}, texts{.1f, 1, .8f, 0, .9f, 0};
  std::vector<float> similarity(3);
  best_text_similarity({documents.data(), 1, 2}, {texts.data(), 3, 2}, ClassPath{0, 0, 2},
                       {similarity.data(), 1, 3});
  EXPECT_THAT(similarity, ElementsAre(.8f, -1.f, .9f));
}

TEST(CoreClasses, AloneAClassIsConfidentByItsOwnSimilarity) {
  EXPECT_EQ(core_confidence(Taxonomy({"only"}, {}), std::vector<float>{.3f}, 0), .3f);
  const std::vector<Candidate> candidates{{0, 1, 1}, {1, 1, 1}};
  const std::vector<float> medians{.5f, .5f}, confidences{.2f, .2f};
  EXPECT_THAT(select_core_classes(candidates, confidences, medians, {true, false}), IsEmpty());
  EXPECT_THAT(select_core_classes(candidates, confidences, medians, {true, true}), ElementsAre(0));
}

TEST(Enrichment, ScoresByHand) {
  EXPECT_EQ(popularity(0), 0);
  EXPECT_NEAR(distinctiveness(2, std::vector<double>{1, 0}), std::exp(2.) / (1 + std::exp(1.) + 1),
              1e-12);
  EXPECT_NEAR(distinctiveness(800, std::vector<double>{800}), 1, 1e-9);  // exp(800) alone overflows
  const Taxonomy t({"a", "b"}, {});
  const auto terms = enrich_classes(t, TermCounts(2, 0), {nullptr, 2, 0}, {nullptr, 0, 0}, {});
  EXPECT_THAT(terms, ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(Refinement, GapCutsByHand) {
  EXPECT_THAT(cut_at_gap(std::vector<float>{.9f, .5f, .8f, .1f}, 3, 1).classes,
              ElementsAre(0, 2, 1));
  EXPECT_THAT(cut_at_gap(std::vector<float>{.9f, .5f, .8f, .1f}, 2, 1).classes, ElementsAre(0, 2));
  EXPECT_THAT(cut_at_gap(std::vector<float>{.5f, .5f, .5f}, 3, 1).classes,
              ElementsAre(0));  // no gap: the first
  EXPECT_THAT(cut_at_gap(std::vector<float>{.5f}, 5, 2).classes, ElementsAre(0));
  EXPECT_EQ(cut_at_gap(std::vector<float>{.5f}, 5, 2).confidence, 0.f);
}

TEST(Refinement, ThreeQuartersAreKeptTiesByIndex) {
  EXPECT_THAT(keep_confident(std::vector<float>{.1f, .1f, .1f, .1f}, .75),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(keep_confident(std::vector<float>{.1f, .3f}, 1), ElementsAre(true, true));
  EXPECT_THAT(keep_confident(std::vector<float>{}, .75), IsEmpty());
}

TEST(Refinement, TopDocumentsOfEqualScoreGoByIndex) {
  const std::vector<float> scores{.5f, .5f, .7f};
  TopDocuments top(1, 2);
  top.add({scores.data(), 3, 1}, 10);
  EXPECT_THAT(top.of(0), ElementsAre(12, 10));
  TopDocuments few(1, 5);
  few.add({scores.data(), 1, 1}, 0);
  EXPECT_THAT(few.of(0), ElementsAre(0));
}

TEST(PseudoDocuments, AreMadeOfSentencesAndTerms) {
  const Taxonomy t = small_tree();
  const std::vector<std::string> sentences{"Plays music files well.",
                                           "Reads every codec there is."},
      terms{"mp3", "radio"};
  PseudoDocumentOptions options;
  options.documents = 2;
  options.sentences = 1;
  RandomStream random(1, 2), same(1, 2);
  const auto documents = build_pseudo_documents(t, {0, 1}, terms, sentences, options, random);
  ASSERT_EQ(documents.size(), 2U);
  for (const auto& text : documents)
    EXPECT_THAT(text, testing::MatchesRegex("sound\\. (Plays music files well|Reads every codec "
                                            "there is)\\. (mp3, radio|radio, mp3)\\."));
  EXPECT_EQ(build_pseudo_documents(t, {0, 1}, terms, sentences, options, same), documents);
  RandomStream other(1, 3);
  EXPECT_THAT(build_pseudo_documents(t, {0, 1}, {}, {}, options, other),
              ElementsAre("sound.", "sound."));
  EXPECT_THAT(starved_classes(std::vector<std::int64_t>{3, 1, 0}, 2), ElementsAre(1, 2));
}

TEST(PseudoDocuments, SentencesAreSplitAndShortOnesJoined) {
  EXPECT_THAT(split_sentences(
                  "A library to read 3.5 files. It is quick! Really? Yes it is very quick indeed."),
              ElementsAre("A library to read 3.5 files. It is quick! Really?",
                          "Yes it is very quick indeed."));
  EXPECT_THAT(split_sentences(
                  "Short. Then a sentence that is long enough.\nAnother line of text, also long."),
              ElementsAre("Short. Then a sentence that is long enough.",
                          "Another line of text, also long."));
  EXPECT_THAT(split_sentences("  "), IsEmpty());
}

}  // namespace
}  // namespace gpuhpc
