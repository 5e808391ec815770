// Learnt vocabularies against Hugging Face tokenizers' trainers (make_vocabularies.py).
#include "gpuhpc/text/vocabulary_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "records.hpp"

namespace gpuhpc {
namespace {

std::vector<std::string> texts() {
  std::vector<std::string> texts;
  for (const auto& record : read_records<char>(GPUHPC_FIXTURES "/wordpiece_lines.gz")) {
    std::string text(record.begin(), record.end());
    if (find_invalid_utf8(text) == std::string::npos) texts.push_back(std::move(text));
  }
  return texts;
}

Subwords kind_of(const Json& expected) {
  return expected.at("kind") == "bpe" ? Subwords::bytes : Subwords::wordpiece;
}

LearntVocabulary learn(const WordCounts& counts, const Json& expected) {
  VocabularySettings settings;
  settings.size = expected.at("size");
  settings.least_count = expected.at("least");
  settings.alphabet = expected.at("alphabet");
  settings.special = special_tokens(counts.kind());
  return learn_vocabulary(counts, settings);
}

TEST(LearntVocabulary, EqualsHuggingFacesEntriesAndIds) {
  const std::vector<std::string> lines = texts();
  for (const Json& expected : Json::parse(read_gz(GPUHPC_FIXTURES "/vocabularies.json.gz"))) {
    SCOPED_TRACE(expected.at("kind").get<std::string>() + " of " + expected.at("size").dump());
    WordCounts counts(kind_of(expected));
    for (const std::string& line : lines) counts.add(line);
    const LearntVocabulary vocabulary = learn(counts, expected);
    EXPECT_EQ(vocabulary.tokens, expected.at("tokens").get<std::vector<std::string>>());
    if (kind_of(expected) == Subwords::bytes) {
      Json merges = Json::array();
      for (const auto& [left, right] : vocabulary.merges)
        merges.push_back({vocabulary.tokens[static_cast<std::size_t>(left)],
                          vocabulary.tokens[static_cast<std::size_t>(right)]});
      EXPECT_EQ(merges, expected.at("merges"));
    }
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("gpuhpc-vocabulary-" + std::to_string(getpid()));
    write_tokenizer(folder, vocabulary);
    const auto tokenizer = load_tokenizer(folder);
    for (std::size_t i = 0; i < 40; ++i)
      EXPECT_EQ(ids_of(*tokenizer, lines[i]),
                expected.at("ids")[i].get<std::vector<std::int32_t>>())
          << lines[i];
    EXPECT_EQ(tokenizer->special().mask, 4);
    EXPECT_EQ(tokenizer->special().single.specials(), 2);
    std::filesystem::remove(folder / "tokenizer.json");  // the older files say the same
    EXPECT_EQ(ids_of(*load_tokenizer(folder), lines[0]), ids_of(*tokenizer, lines[0]));
    std::filesystem::remove_all(folder);
  }
}

TEST(LearntVocabulary, CountsOfSeveralRanksAddUp) {
  const Json expected = Json::parse(read_gz(GPUHPC_FIXTURES "/vocabularies.json.gz"))[0];
  WordCounts odd(Subwords::wordpiece), all(Subwords::wordpiece);
  std::size_t i = 0;
  for (const std::string& line : texts()) (i++ % 2 == 0 ? all : odd).add(line);
  for (const auto& [word, times] : odd) all.add(word, times);
  EXPECT_EQ(learn(all, expected).tokens, expected.at("tokens").get<std::vector<std::string>>());
}

TEST(LearntVocabulary, TooSmallForItsCharactersIsRefused) {
  WordCounts counts(Subwords::bytes);
  counts.add("some text");
  try {
    learn_vocabulary(counts, {.size = 200, .special = special_tokens(Subwords::bytes)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), testing::HasSubstr("are 261 entries, more than a vocabulary of 200"));
  }
}

}  // namespace
}  // namespace gpuhpc
