#include "gpuhpc/text/bert_words.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "records.hpp"
#include "threads.hpp"

namespace gpuhpc {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::ElementsAre;

const std::string fixtures = GPUHPC_FIXTURES;
const std::string uncased_model = std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2";

Ids wordpiece_ids(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::vector<std::string> wordpiece_lines() {
  std::vector<std::string> lines;
  for (const auto& record : read_records<char>(fixtures + "/wordpiece_lines.gz"))
    lines.emplace_back(record.begin(), record.end());
  return lines;
}

// Lines whose ids differ from Hugging Face's, by all three ways to encode.
void expect_equal_ids(const Tokenizer& tokenizer, const std::string& ids_file) {
  const auto lines = wordpiece_lines();
  const auto expected = read_records<std::int32_t>(ids_file);
  ASSERT_EQ(lines.size(), 5000u);
  ASSERT_EQ(expected.size(), lines.size());
  const auto scratch = tokenizer.make_scratch();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(wordpiece_ids(tokenizer, lines[i]), expected[i]) << "line " << i << ": " << lines[i];
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
  const auto lines = wordpiece_lines();
  const auto expected = read_records<std::int32_t>(fixtures + "/wordpiece_truncated.gz");
  const TextTemplate& form = tokenizer->special().single;
  ASSERT_EQ(expected.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Ids ids = wordpiece_ids(*tokenizer, lines[i]);
    Ids cut = form.before;
    cut.insert(cut.end(), ids.begin(),
               ids.begin() + std::min(std::ssize(ids), 16 - form.specials()));
    cut.insert(cut.end(), form.after.begin(), form.after.end());
    ASSERT_EQ(cut, expected[i]) << "line " << i;
  }
}

// All lines as one text of about a megabyte, and one line after another, differ only where a line's
// end joins the next line's begin: with a delimiter between them the ids must be those of the
// lines.
TEST(WordPiece, LongTextsEqualTheirLines) {
  const auto tokenizer = load_tokenizer(uncased_model);
  std::string all;
  Ids expected;
  for (const auto& line : wordpiece_lines()) {
    all += line + "\n";
    tokenizer->encode(line, expected);
  }
  EXPECT_EQ(wordpiece_ids(*tokenizer, all), expected);
}

TEST(WordPiece, RunsAcrossPiecesAreOneWord) {
  const auto tokenizer = load_tokenizer(uncased_model);
  EXPECT_THAT(wordpiece_ids(*tokenizer, std::string(10000, 'a')), ElementsAre(100));
  EXPECT_THAT(wordpiece_ids(*tokenizer, std::string(10000, 'a') + " the"), ElementsAre(100, 1996));
  std::string ideographs;
  for (int i = 0; i < 5000; ++i) ideographs += "一";
  EXPECT_EQ(wordpiece_ids(*tokenizer, ideographs), Ids(5000, 1740));
  EXPECT_EQ(wordpiece_ids(*tokenizer, std::string(9000, ' ')), Ids{});
  EXPECT_EQ(wordpiece_ids(*tokenizer, std::string(9000, '.')), Ids(9000, 1012));
  for (std::size_t before = 4080; before < 4110; ++before) {  // a word on every side of the cut
    Ids ids(before, 1012);
    ids.push_back(1996);
    EXPECT_EQ(wordpiece_ids(*tokenizer, std::string(before, '.') + "The "), ids);
  }
}

TEST(WordPiece, VeryLongWordIsUnknown) {
  const auto tokenizer = load_tokenizer(uncased_model);
  EXPECT_EQ(wordpiece_ids(*tokenizer, std::string(101, 'a')), Ids{tokenizer->special().unk});
  EXPECT_NE(wordpiece_ids(*tokenizer, std::string(100, 'a')), Ids{tokenizer->special().unk});
  std::string accents;
  for (int i = 0; i < 100; ++i)
    accents += "é";  // 100 characters after normalisation, 200 bytes before
  EXPECT_EQ(wordpiece_ids(*tokenizer, accents), wordpiece_ids(*tokenizer, std::string(100, 'e')));
}

TEST(WordPiece, ThreadsGetTheSameIds) {
  expect_same_ids_in_threads(*load_tokenizer(uncased_model), wordpiece_lines(), 100000);
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
      EXPECT_EQ(ids, wordpiece_ids(*tokenizer, word));
    }
  }
}

std::unique_ptr<Tokenizer> small_tokenizer(bool lowercase, bool clean_text = true) {
  Json vocabulary;
  for (const char* token :
       {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "The", "the", "."})
    vocabulary[token] = vocabulary.size();
  Json json = {{"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", clean_text},
                 {"handle_chinese_chars", true},
                 {"lowercase", lowercase}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"model",
                {{"type", "WordPiece"},
                 {"unk_token", "[UNK]"},
                 {"continuing_subword_prefix", "##"},
                 {"vocab", vocabulary}}}};
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    json["added_tokens"].push_back(
        {{"id", vocabulary[token]}, {"content", token}, {"special", true}});
  return parse_tokenizer_json(json.dump(), "tokenizer.json");
}

TEST(WordPiece, CaseAndSpecialTokens) {
  const auto cased = small_tokenizer(false), uncased = small_tokenizer(true);
  EXPECT_THAT(wordpiece_ids(*cased, "unaffable The the THE."), ElementsAre(5, 6, 7, 8, 9, 1, 10));
  EXPECT_THAT(wordpiece_ids(*cased, "un[MASK]able[SEP] aff"), ElementsAre(5, 4, 1, 3, 1));
  EXPECT_EQ(cased->vocabulary_size(), 11);
  const SpecialTokens& special = cased->special();
  EXPECT_EQ(special.pad, 0);
  EXPECT_EQ(special.unk, 1);
  EXPECT_EQ(special.mask, 4);
  EXPECT_EQ(special.eos, -1);
  EXPECT_THAT(special.ids, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(special.single.before, ElementsAre(2));
  EXPECT_THAT(special.single.after, ElementsAre(3));
  EXPECT_THAT(wordpiece_ids(*uncased, "UNaffáble The the THE."), ElementsAre(5, 6, 7, 9, 9, 9, 10));
  EXPECT_NE(cased->fingerprint(), uncased->fingerprint());
  EXPECT_EQ(cased->fingerprint(), small_tokenizer(false)->fingerprint());
  EXPECT_EQ(cased->fingerprint().size(), 32u);
}

TEST(WordPiece, NulBytesCountOnlyWithoutCleaning) {
  const std::string_view text("un\0the", 6), head("un\0", 3);
  const auto cleaning = small_tokenizer(false);
  EXPECT_THAT(wordpiece_ids(*cleaning, "un"), ElementsAre(5));
  EXPECT_THAT(wordpiece_ids(*cleaning, head), ElementsAre(5));
  EXPECT_THAT(wordpiece_ids(*cleaning, std::string_view("\0\0\0\0\0\0\0\0\0", 9)), ElementsAre());
  const auto raw = small_tokenizer(false, false);
  EXPECT_THAT(wordpiece_ids(*raw, "un"), ElementsAre(5));
  EXPECT_THAT(wordpiece_ids(*raw, head), ElementsAre(1));
  EXPECT_THAT(wordpiece_ids(*raw, text), ElementsAre(1));
  EXPECT_THAT(wordpiece_ids(*raw, std::string_view("\0", 1)), ElementsAre(1));
}

TEST(WordPiece, BrokenUtf8DecodesAsPythonDoes) {
  BertWords words({false, true, false, false});  // cleaning would drop U+FFFD
  const std::string r = "\xEF\xBF\xBD";          // U+FFFD
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
  for (const auto& [bytes, text] : decoded) {
    std::vector<std::string> found;
    words.split(bytes, [&](std::string_view word, std::size_t) { found.emplace_back(word); });
    EXPECT_THAT(found, ElementsAre(text));
  }
}

}  // namespace
}  // namespace gpuhpc
