#include "gpuhpc/retrieval/tfidf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/text/words.hpp"

namespace gpuhpc {
namespace {

using testing_fixture::fields;
using testing_fixture::lines;
using testing_fixture::texts;

std::vector<std::string> words_of(std::string_view text) {
  TermWords splitter;
  const auto words = splitter.split(text);
  return {words.begin(), words.end()};
}

TEST(Tfidf, StopWordsAreScikitLearns) {
  const auto words = lines("stop_words.txt");
  ASSERT_EQ(words.size(), 318U);
  for (const std::string& word : words) EXPECT_TRUE(is_term_stop_word(word)) << word;
  for (const char* word : {"", "a b", "word", "The", "zzz", "computers"})
    EXPECT_FALSE(is_term_stop_word(word)) << word;
}

TEST(Tfidf, WordsAreScikitLearns) {
  const auto all = texts();
  const auto expected = lines("words.txt");
  ASSERT_EQ(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(words_of(all[i]), fields(expected[i])) << "text " << i << ": " << all[i];
}

TEST(Tfidf, BrokenUtf8SeparatesWords) {
  EXPECT_EQ(words_of("good\xff"
                     "bad\xc3 \xe2\x82word"),
            (std::vector<std::string>{"good", "bad", "word"}));
  EXPECT_EQ(words_of(std::string_view("nul\0byte", 8)), (std::vector<std::string>{"nul", "byte"}));
}

TEST(Tfidf, VocabularyAndIdfAreScikitLearns) {
  const TfidfModel model = TfidfModel::fit(texts());
  const auto expected = lines("idf.tsv");
  ASSERT_EQ(model.size(), std::ssize(expected));
  for (const std::string& line : expected) {
    const auto parts = fields(line);
    const std::int64_t column = model.column(term_hash(parts[0]));
    ASSERT_GE(column, 0) << parts[0];
    EXPECT_NEAR(model.idf()[static_cast<std::size_t>(column)], std::stod(parts[1]), 1e-6)
        << parts[0];
  }
  EXPECT_EQ(model.column(term_hash("surely not there")), -1);
}

TEST(Tfidf, RowsAreScikitLearns) {
  const auto all = texts();
  const TfidfModel model = TfidfModel::fit(all);
  const SparseMatrix rows = model.transform(all, 3);
  std::vector<std::map<std::int32_t, double>> expected(all.size());
  for (const std::string& line : lines("tfidf.tsv")) {
    const auto parts = fields(line);
    expected[std::stoul(parts[0])][static_cast<std::int32_t>(model.column(term_hash(parts[1])))] =
        std::stod(parts[2]);
  }
  ASSERT_EQ(rows.rows(), std::ssize(all));
  EXPECT_EQ(rows.columns_count, model.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto first = static_cast<std::size_t>(rows.offsets[i]),
               last = static_cast<std::size_t>(rows.offsets[i + 1]);
    ASSERT_EQ(last - first, expected[i].size()) << "text " << i;
    EXPECT_TRUE(std::is_sorted(rows.columns.begin() + rows.offsets[i],
                               rows.columns.begin() + rows.offsets[i + 1]));
    for (std::size_t e = first; e < last; ++e) {
      ASSERT_TRUE(expected[i].contains(rows.columns[e])) << "text " << i;
      EXPECT_NEAR(rows.values[e], expected[i][rows.columns[e]], 1e-6) << "text " << i;
    }
  }
}

TEST(Tfidf, PartsMergeToTheWhole) {
  const auto all = texts();
  DocumentFrequencies whole;
  whole.add(all, 2);
  std::vector<std::int64_t> gathered;
  for (std::size_t first = 0; first < all.size(); first += 50) {
    DocumentFrequencies part;
    for (std::size_t i = first; i < std::min(all.size(), first + 50); ++i) part.add(all[i]);
    const auto packed = part.pack();
    gathered.insert(gathered.end(), packed.begin(), packed.end());
  }
  DocumentFrequencies merged;
  merged.merge(gathered);
  EXPECT_EQ(merged.documents(), std::ssize(all));
  EXPECT_EQ(merged.pack(), whole.pack());
  const TfidfModel a(merged), b(whole);
  EXPECT_EQ(a.terms(), b.terms());
  EXPECT_EQ(a.idf(), b.idf());
  gathered.pop_back();
  EXPECT_THROW(merged.merge(gathered), Error);
}

TEST(Tfidf, StoredModelGivesTheSameRows) {
  const auto all = texts();
  const TfidfModel model = TfidfModel::fit(all);
  const TfidfModel stored(model.options(), model.terms(), model.idf());
  EXPECT_EQ(stored.transform(all).values, model.transform(all).values);
  EXPECT_THROW(TfidfModel({}, {1, 2}, {1.0F}), Error);
  EXPECT_THROW(TfidfModel({}, {2, 2}, {1.0F, 1.0F}), Error);
}

TEST(Tfidf, NothingLeftIsAnEmptyModel) {
  const std::vector<std::string> few{"one document", "two documents", ""};
  const TfidfModel model = TfidfModel::fit(few);
  EXPECT_EQ(model.size(), 0);
  const SparseMatrix rows = model.transform(few);
  EXPECT_EQ(rows.rows(), 3);
  EXPECT_TRUE(rows.values.empty());
  EXPECT_EQ(TfidfModel::fit({}).transform({}).rows(), 0);
}

TEST(Tfidf, OptionsChangeTheTerms) {
  const std::vector<std::string> all{"the red car", "the red bus", "green car"};
  TfidfOptions options;
  options.longest_ngram = 3;
  options.english_stop_words = false;
  options.min_documents = 1;
  options.max_document_share = 1;
  // the red car bus green | the red, red car, red bus, green car | the red car, the red bus
  EXPECT_EQ(TfidfModel::fit(all, options).size(), 11);
  options.longest_ngram = 1;
  options.min_documents = 2;
  EXPECT_EQ(TfidfModel::fit(all, options).size(), 3);
  options.max_document_share = 0.5;
  EXPECT_EQ(TfidfModel::fit(all, options).size(), 0);
}

TEST(Tfidf, StackedRowsMustFit) {
  SparseMatrix wide, narrow;
  wide.columns_count = 3;
  narrow.columns_count = 2;
  EXPECT_THROW(stack_rows(wide, narrow), Error);
}

}  // namespace
}  // namespace gpuhpc
