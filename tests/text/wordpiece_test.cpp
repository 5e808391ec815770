#include "gpuhpc/text/wordpiece.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"
#include "records.hpp"
#include "threads.hpp"

namespace gpuhpc {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::ElementsAre;

const std::string fixtures = GPUHPC_FIXTURES;
const std::string uncased_model = std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2";

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::vector<std::string> fixture_lines() {
  std::vector<std::string> lines;
  for (const auto& record : read_records<char>(fixtures + "/wordpiece_lines.gz"))
    lines.emplace_back(record.begin(), record.end());
  return lines;
}

// Lines whose ids differ from Hugging Face's, by all three ways to encode.
void expect_equal_ids(const Tokenizer& tokenizer, const std::string& ids_file) {
  const auto lines = fixture_lines();
  const auto expected = read_records<std::int32_t>(ids_file);
  ASSERT_EQ(lines.size(), 5000u);
  ASSERT_EQ(expected.size(), lines.size());
  const auto scratch = tokenizer.make_scratch();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(encoded(tokenizer, lines[i]), expected[i]) << "line " << i << ": " << lines[i];
    Ids ids{7};
    tokenizer.encode_with(*scratch, lines[i], ids);
    ASSERT_EQ(ids.front(), 7) << "ids are appended";
    ids.erase(ids.begin());
    ASSERT_EQ(ids, expected[i]) << "line " << i << " with own buffers";
  }
}

TEST(WordPiece, UncasedIdsEqualHuggingFace) {
  expect_equal_ids(*load_tokenizer(uncased_model), fixtures + "/wordpiece_uncased.gz");
}

TEST(WordPiece, CasedIdsEqualHuggingFace) {
  expect_equal_ids(*load_tokenizer(fixtures + "/cased"), fixtures + "/wordpiece_cased.gz");
}

TEST(WordPiece, TruncationEqualsHuggingFace) {
  const auto tokenizer = load_tokenizer(uncased_model);
  const auto lines = fixture_lines();
  const auto expected = read_records<std::int32_t>(fixtures + "/wordpiece_truncated.gz");
  ASSERT_EQ(expected.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(with_specials(*tokenizer, encoded(*tokenizer, lines[i]), 16), expected[i])
        << "line " << i;
  }
}

TEST(WordPiece, TruncationNeedsRoomForSpecials) {
  const Ids ids{5, 6, 7};
  EXPECT_THAT(truncated(ids, 5), ElementsAre(5, 6, 7));
  EXPECT_THAT(truncated(ids, 4), ElementsAre(5, 6));
  EXPECT_TRUE(truncated(ids, 2).empty());
  EXPECT_THROW(truncated(ids, 1), Error);
}

// All lines as one text of about a megabyte, and one line after another, differ only where a line's
// end joins the next line's begin: with a delimiter between them the ids must be those of the
// lines.
TEST(WordPiece, LongTextsEqualTheirLines) {
  const auto tokenizer = load_tokenizer(uncased_model);
  std::string all;
  Ids expected;
  for (const auto& line : fixture_lines()) {
    all += line + "\n";
    tokenizer->encode(line, expected);
  }
  EXPECT_EQ(encoded(*tokenizer, all), expected);
}

TEST(WordPiece, RunsAcrossPiecesAreOneWord) {
  const auto tokenizer = load_tokenizer(uncased_model);
  EXPECT_THAT(encoded(*tokenizer, std::string(10000, 'a')), ElementsAre(100));
  EXPECT_THAT(encoded(*tokenizer, std::string(10000, 'a') + " the"), ElementsAre(100, 1996));
  std::string ideographs;
  for (int i = 0; i < 5000; ++i) ideographs += "一";
  EXPECT_EQ(encoded(*tokenizer, ideographs), Ids(5000, 1740));
  EXPECT_EQ(encoded(*tokenizer, std::string(9000, ' ')), Ids{});
  EXPECT_EQ(encoded(*tokenizer, std::string(9000, '.')), Ids(9000, 1012));
  for (std::size_t before = 4080; before < 4110; ++before) {  // a word on every side of the cut
    Ids ids(before, 1012);
    ids.push_back(1996);
    EXPECT_EQ(encoded(*tokenizer, std::string(before, '.') + "The "), ids);
  }
}

TEST(WordPiece, VeryLongWordIsUnknown) {
  const auto tokenizer = load_tokenizer(uncased_model);
  EXPECT_EQ(encoded(*tokenizer, std::string(101, 'a')), Ids{tokenizer->unk_id()});
  EXPECT_NE(encoded(*tokenizer, std::string(100, 'a')), Ids{tokenizer->unk_id()});
  std::string accents;
  for (int i = 0; i < 100; ++i)
    accents += "é";  // 100 characters after normalisation, 200 bytes before
  EXPECT_EQ(encoded(*tokenizer, accents), encoded(*tokenizer, std::string(100, 'e')));
}

TEST(WordPiece, ThreadsGetTheSameIds) {
  expect_same_ids_in_threads(*load_tokenizer(uncased_model), fixture_lines(), 100000);
}

TEST(WordPiece, ScratchOfAnotherTokenizerIsRefused) {
  const auto one = load_tokenizer(uncased_model), two = load_tokenizer(fixtures + "/cased");
  const auto scratch = one->make_scratch();
  Ids ids;
  EXPECT_THROW(two->encode_with(*scratch, "text", ids), Error);
}

// The cache holds 65,536 words and is replaced bit by bit: ids stay right far beyond that.
TEST(WordPiece, MoreWordsThanTheCacheHolds) {
  const auto tokenizer = load_tokenizer(uncased_model);
  const auto scratch = tokenizer->make_scratch();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 150000; ++i) {
      const std::string word = fmt::format("w{}xyzqk", i * 7919);
      Ids ids;
      tokenizer->encode_with(*scratch, word, ids);
      if (i % 1000 != 0) continue;
      EXPECT_EQ(ids, encoded(*tokenizer, word));
    }
  }
}

WordPieceSettings cased_settings() {
  WordPieceSettings settings;
  settings.normalizer.lowercase = settings.normalizer.strip_accents = false;
  return settings;
}

constexpr const char* small_vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nThe\nthe\n.\n";

TEST(WordPiece, VocabularyText) {
  const auto cased = parse_vocabulary(small_vocabulary, cased_settings(), "vocab.txt");
  EXPECT_THAT(encoded(*cased, "unaffable The the THE."), ElementsAre(5, 6, 7, 8, 9, 1, 10));
  EXPECT_THAT(encoded(*cased, "un[MASK]able[SEP] aff"), ElementsAre(5, 4, 1, 3, 1));
  EXPECT_EQ(cased->vocabulary_size(), 11);
  EXPECT_EQ(cased->pad_id(), 0);
  EXPECT_EQ(cased->unk_id(), 1);
  EXPECT_EQ(cased->cls_id(), 2);
  EXPECT_EQ(cased->sep_id(), 3);
  EXPECT_EQ(cased->mask_id(), 4);
  const auto uncased = parse_vocabulary(small_vocabulary, WordPieceSettings{}, "vocab.txt");
  EXPECT_THAT(encoded(*uncased, "UNaffáble The the THE."), ElementsAre(5, 6, 7, 9, 9, 9, 10));
  EXPECT_NE(cased->fingerprint(), uncased->fingerprint());
  EXPECT_EQ(cased->fingerprint(),
            parse_vocabulary(small_vocabulary, cased_settings(), "elsewhere")->fingerprint());
  EXPECT_EQ(cased->fingerprint().size(), 32u);
}

TEST(WordPiece, NulBytesCountOnlyWithoutCleaning) {
  auto settings = cased_settings();
  const std::string_view text("un\0the", 6), head("un\0", 3);
  const auto cleaning = parse_vocabulary(small_vocabulary, settings, "vocab.txt");
  EXPECT_THAT(encoded(*cleaning, "un"), ElementsAre(5));
  EXPECT_THAT(encoded(*cleaning, head), ElementsAre(5));
  EXPECT_THAT(encoded(*cleaning, std::string_view("\0\0\0\0\0\0\0\0\0", 9)), ElementsAre());
  settings.normalizer.clean_text = false;
  const auto raw = parse_vocabulary(small_vocabulary, settings, "vocab.txt");
  EXPECT_THAT(encoded(*raw, "un"), ElementsAre(5));
  EXPECT_THAT(encoded(*raw, head), ElementsAre(1));
  EXPECT_THAT(encoded(*raw, text), ElementsAre(1));
  EXPECT_THAT(encoded(*raw, std::string_view("\0", 1)), ElementsAre(1));
}

TEST(WordPiece, BrokenUtf8DecodesAsPythonDoes) {
  auto settings = cased_settings();
  settings.normalizer.clean_text = false;  // else U+FFFD is dropped
  const auto tokenizer = parse_vocabulary(small_vocabulary, settings, "vocab.txt");
  const std::string r = "\xEF\xBF\xBD";  // U+FFFD
  const std::vector<std::pair<std::string, std::string>> decoded = {
      {"\xFF", r},
      {"\xC0\xAF", r + r},
      {"\xE2\x82", r},
      {"\xE2\x82z", r + "z"},
      {"\xF0\x9F\x98", r},
      {"\xED\xA0\x80", r + r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\xF0\x80\x80\x80", r + r + r + r},
      {"\xE0\x80\xAF", r + r + r},
      {"\xC3\xA9\xC3", "é" + r},
      {"\xF1\x80\x80\xC3\xA9", r + "é"},
  };
  for (const auto& [bytes, text] : decoded) EXPECT_THAT(tokenizer->words(bytes), ElementsAre(text));
}

}  // namespace
}  // namespace gpuhpc
