// Tokenizers of every kind against Hugging Face (data_tools/fixtures/make_tokenizers.py).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "records.hpp"
#include "threads.hpp"

namespace gpuhpc {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::ElementsAre;

const std::string tokenizers = std::string(GPUHPC_FIXTURES) + "/tokenizers/";

std::vector<std::string> tokenizer_lines() {
  std::vector<std::string> lines;
  for (const auto& record : read_records<char>(tokenizers + "lines.gz"))
    lines.emplace_back(record.begin(), record.end());
  return lines;
}

std::string test_name(const testing::TestParamInfo<const char*>& kind) {
  std::string name = kind.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class SubwordTokenizers : public testing::TestWithParam<const char*> {};

TEST_P(SubwordTokenizers, IdsEqualHuggingFace) {
  const auto tokenizer = load_tokenizer(tokenizers + GetParam());
  const auto lines = tokenizer_lines();
  const auto expected = read_records<std::int32_t>(tokenizers + GetParam() + "/ids.gz");
  ASSERT_EQ(lines.size(), 300u);
  ASSERT_EQ(expected.size(), lines.size());
  const auto scratch = tokenizer->make_scratch();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(ids_of(*tokenizer, lines[i]), expected[i]) << "line " << i << ": " << lines[i];
    Ids ids{7};
    tokenizer->encode_with(*scratch, lines[i], ids);
    ASSERT_EQ(ids.front(), 7) << "ids are appended";
    ids.erase(ids.begin());
    ASSERT_EQ(ids, expected[i]) << "line " << i << " with own buffers";
    for (const std::int32_t id : ids) ASSERT_LT(id, tokenizer->vocabulary_size());
  }
}

std::int32_t checksum(const std::string& text) {
  return static_cast<std::int32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

// Ids of texts between special tokens, and random ones, of which a few are in no vocabulary.
TEST_P(SubwordTokenizers, DecodedTextsEqualHuggingFace) {
  const auto tokenizer = load_tokenizer(tokenizers + GetParam());
  const auto expected = read_records<std::int32_t>(tokenizers + GetParam() + "/decoded.gz");
  ASSERT_EQ(expected.size(), 120u);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::span<const std::int32_t> ids = std::span(expected[i]).subspan(2);
    const std::string all = tokenizer->decode(ids, false), text = tokenizer->decode(ids);
    EXPECT_EQ(checksum(all), expected[i][0]) << "sequence " << i << ": " << all;
    EXPECT_EQ(checksum(text), expected[i][1]) << "sequence " << i << ": " << text;
  }
}

class SubwordPairs : public testing::TestWithParam<const char*> {};

// The first four characters of the second text, both together at most 24 tokens.
TEST_P(SubwordPairs, EqualHuggingFace) {
  const auto tokenizer = load_tokenizer(tokenizers + GetParam());
  const auto lines = tokenizer_lines();
  const auto expected = read_records<std::int32_t>(tokenizers + GetParam() + "/pairs.gz");
  ASSERT_EQ(expected.size(), 2 * (lines.size() - 1));
  int compared = 0;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::string second = lines[i + 1].substr(0, 4);
    const bool ascii = std::all_of(second.begin(), second.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (second.size() < 4 || !ascii) continue;  // characters are bytes
    const TokenPair pair = paired(tokenizer->special().pair, ids_of(*tokenizer, lines[i]),
                                  ids_of(*tokenizer, second), 24);
    ASSERT_EQ(pair.ids, expected[2 * i]) << "line " << i;
    ASSERT_EQ(pair.segments, expected[2 * i + 1]) << "line " << i;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SubwordTokenizers,
                         testing::Values("deberta-files", "deberta-v3", "deberta-v3-charsmap",
                                         "deberta-v3-files", "gpt2-files", "modernbert", "mpnet",
                                         "mpnet-files", "mt5-steps", "roberta", "roberta-added",
                                         "roberta-files", "t5-files", "xlm-roberta-files"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Kinds, SubwordPairs,
                         testing::Values("deberta-v3", "deberta-v3-charsmap", "deberta-v3-files",
                                         "gpt2-files", "modernbert", "mpnet", "mpnet-files",
                                         "mt5-steps", "roberta", "roberta-added", "roberta-files",
                                         "t5-files", "xlm-roberta-files"),
                         test_name);

PairTemplate::Special special(std::int32_t id, std::int32_t segment) { return {id, segment}; }

TEST(SubwordSpecials, RobertaHasTwoSeparatorsAndOneSegment) {
  const auto tokenizer = load_tokenizer(tokenizers + "roberta-files");
  const SpecialTokens& special_tokens = tokenizer->special();
  EXPECT_THAT(special_tokens.single.before, ElementsAre(0));
  EXPECT_THAT(special_tokens.single.after, ElementsAre(2));
  EXPECT_THAT(
      (Ids{special_tokens.pad, special_tokens.eos, special_tokens.unk, special_tokens.mask}),
      ElementsAre(1, 2, 3, 4));
  const PairTemplate pair = tokenizer->special().pair;
  EXPECT_THAT(pair.before, ElementsAre(special(0, 0)));
  EXPECT_THAT(pair.between, ElementsAre(special(2, 0), special(2, 0)));
  EXPECT_THAT(pair.after, ElementsAre(special(2, 0)));
  EXPECT_EQ(pair.first_segment, 0);
  EXPECT_EQ(pair.second_segment, 0);
}

// ModernBERT's tokens for runs of spaces take the longest that fits; words keep their last space.
TEST(SubwordSpecials, RunsOfSpacesAreTokens) {
  const auto tokenizer = load_tokenizer(tokenizers + "modernbert");
  const auto of_spaces = [&](std::size_t count) {
    return ids_of(*tokenizer, std::string(count, ' '));
  };
  const std::int32_t two = of_spaces(2).front();
  EXPECT_THAT(of_spaces(24), ElementsAre(two - 22));
  EXPECT_THAT(of_spaces(26), ElementsAre(two - 22, two));
  EXPECT_THAT(ids_of(*tokenizer, "a   b").size(), 3u);
  const SpecialTokens& special_tokens = tokenizer->special();
  EXPECT_THAT(special_tokens.single.before, ElementsAre(two + 5));
  EXPECT_THAT(special_tokens.single.after, ElementsAre(two + 6));
  EXPECT_THAT((Ids{special_tokens.unk, special_tokens.pad, special_tokens.mask}),
              ElementsAre(two + 4, two + 7, two + 8));
  EXPECT_EQ(special_tokens.pair.second_segment, 0);
}

// As the model was trained; DebertaTokenizer of transformers 5.23 writes the separator between the
// texts twice.
TEST(SubwordSpecials, DebertaFilesHaveOneSeparator) {
  const auto tokenizer = load_tokenizer(tokenizers + "deberta-files");
  EXPECT_EQ(tokenizer->special().mask, 600) << "behind the vocabulary";
  const PairTemplate pair = tokenizer->special().pair;
  EXPECT_THAT(pair.before, ElementsAre(special(0, 0)));
  EXPECT_THAT(pair.between, ElementsAre(special(2, 0)));
  EXPECT_THAT(pair.after, ElementsAre(special(2, 1)));
  EXPECT_EQ(pair.second_segment, 1);
}

TEST(SubwordSpecials, T5EndsTextsAndGpt2HasNone) {
  const auto t5 = load_tokenizer(tokenizers + "t5-files"),
             gpt2 = load_tokenizer(tokenizers + "gpt2-files");
  EXPECT_THAT(t5->special().single.before, ElementsAre());
  EXPECT_THAT(t5->special().single.after, ElementsAre(1));
  EXPECT_EQ(t5->special().eos, 1);
  EXPECT_EQ(gpt2->special().single.specials(), 0);
  EXPECT_EQ(gpt2->special().pair.specials(), 0);
}

TEST(SubwordSpecials, PairNeedsRoomForTheFirstText) {
  const PairTemplate pair = load_tokenizer(tokenizers + "roberta-files")->special().pair;
  EXPECT_THAT(paired(pair, Ids{7, 8, 9}, Ids{5}, 6).ids, ElementsAre(0, 7, 2, 2, 5, 2));
  EXPECT_THAT(paired(pair, Ids{7, 8, 9}, Ids{5}, 99).ids, ElementsAre(0, 7, 8, 9, 2, 2, 5, 2));
  EXPECT_THROW(paired(pair, Ids{7, 8, 9}, Ids{5}, 5), Error);
}

TEST(SubwordSpecials, BertPairHasTwoSegments) {
  const auto tokenizer = load_tokenizer(std::string(GPUHPC_FIXTURES) + "/cased");
  const TokenPair pair = paired(tokenizer->special().pair, Ids{7, 8}, Ids{9}, 10);
  const std::int32_t cls = tokenizer->special().single.before.front(),
                     sep = tokenizer->special().single.after.front();
  EXPECT_THAT(pair.ids, ElementsAre(cls, 7, 8, sep, 9, sep));
  EXPECT_THAT(pair.segments, ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(SubwordThreads, ThreadsGetTheSameIds) {
  for (const char* kind : {"roberta", "deberta-v3-charsmap"})
    expect_same_ids_in_threads(*load_tokenizer(tokenizers + kind), tokenizer_lines(), 20000);
}

TEST(SubwordThreads, ScratchOfAnotherTokenizerIsRefused) {
  const auto one = load_tokenizer(tokenizers + "roberta"),
             two = load_tokenizer(tokenizers + "roberta");
  const auto scratch = one->make_scratch();
  Ids ids;
  EXPECT_THROW(two->encode_with(*scratch, "text", ids), Error);
}

// One word of a megabyte: the merges of a long word go through a heap, those of a short one do not.
TEST(SubwordWords, LongWordsMergeAsShortOnesDo) {
  const auto tokenizer = load_tokenizer(tokenizers + "roberta");
  const auto lines = tokenizer_lines();
  for (const std::string unit : {"aaaa", "tion", "\xF0\x9F\x98\x80"}) {
    std::string word;
    for (int i = 0; i < 8; ++i) word += unit;
    const Ids of_short = ids_of(*tokenizer, word);
    std::string many;
    for (int i = 0; i < 250000; ++i) many += unit;
    const Ids of_long = ids_of(*tokenizer, many);
    ASSERT_GT(of_long.size(), of_short.size());
    EXPECT_TRUE(std::equal(of_short.begin(),
                           of_short.begin() + static_cast<std::ptrdiff_t>(of_short.size() / 2),
                           of_long.begin()))
        << unit;
  }
  EXPECT_GT(ids_of(*load_tokenizer(tokenizers + "deberta-v3"), std::string(1000000, 'q')).size(),
            0u);
}

}  // namespace
}  // namespace gpuhpc
