// What a tokenizer's files may say wrong: one sentence that names the file, exit 65.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/wordpiece.hpp"

namespace gpuhpc {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* good = R"({
  "added_tokens": [{"id": 0, "content": "[PAD]", "special": true, "normalized": false},
                   {"id": 3, "content": "[SEP]", "special": true, "normalized": false}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "un": 4, "##able": 5, "ab": 6}}})";

Json good_json() { return Json::parse(good); }

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

void expect_refused(const std::string& json, const std::string& sentence) {
  try {
    parse_tokenizer_json(json, "folder/tokenizer.json");
    FAIL() << "accepted: " << json.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_THAT(error.what(), HasSubstr("folder/tokenizer.json"));
    EXPECT_THAT(error.what(), HasSubstr(sentence));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

struct Refusal {
  const char* pointer;  // what is replaced
  const char* value;    // by this JSON
  const char* sentence;
};

TEST(TokenizerFiles, GoodOneLoads) {
  const auto tokenizer = parse_tokenizer_json(good, "tokenizer.json");
  EXPECT_THAT(encoded(*tokenizer, "Unable[SEP] áb"), ElementsAre(4, 5, 3, 6));
  EXPECT_EQ(tokenizer->vocabulary_size(), 7);
  EXPECT_EQ(tokenizer->mask_id(), -1);
}

TEST(TokenizerFiles, UnsupportedPartsAreRefused) {
  const Refusal refusals[] = {
      {"/model/type", "\"WordLevel\"", "model \"WordLevel\" is not supported"},
      {"/model", "null", "there is no model"},
      {"/model", "[]", "expected an object"},
      {"/normalizer", "null", "there is no normalizer"},
      {"/normalizer/type", "\"NFKC\"", "normalizer \"NFKC\" is not supported"},
      {"/normalizer/lowercase", "\"yes\"", "\"lowercase\" must be true or false"},
      {"/normalizer/clean_text", "null", "\"clean_text\" is missing"},
      {"/normalizer/strip_accents", "1", "\"strip_accents\" must be true or false"},
      {"/pre_tokenizer/type", "\"Whitespace\"", "pre_tokenizer \"Whitespace\" is not supported"},
      {"/pre_tokenizer", "null", "there is no pre_tokenizer"},
      {"/post_processor/type", "\"ByteLevel\"", "must be [CLS] text [SEP]"},
      {"/post_processor/type", "\"Other\"", "\"Other\" is not supported"},
      {"/post_processor/cls", "[\"[CLS]\"]", "must be a token and its id"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": []})", "must be [CLS] text [SEP]"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": [1, 2, 3]})", "single: expected an object"},
      {"/post_processor/sep/0", "\"</s>\"", "has no </s>"},
      {"/model/vocab", "{}", "the vocabulary is empty"},
      {"/model/vocab", "[]", "expected an object"},
      {"/model/vocab/un", "\"4\"", "id of token \"un\" must be a whole number"},
      {"/model/vocab/un", "-1", "must be a whole number"},
      {"/model/vocab/un", "1.5", "must be a whole number"},
      {"/model/vocab/un", "18446744073709551615", "must be a whole number"},
      {"/model/vocab/un", "6", "id 6 is given to two tokens"},
      {"/model/vocab/", "9", "is empty"},
      {"/model/unk_token", "\"<unk>\"", "has no <unk>"},
      {"/model/unk_token", "7", "\"unk_token\" must be a string"},
      {"/model/continuing_subword_prefix", "null", "\"continuing_subword_prefix\" is missing"},
      {"/model/max_input_chars_per_word", "0", "must be a whole number from 1"},
      {"/model/max_input_chars_per_word", "1e3", "must be a whole number from 1"},
      {"/added_tokens", "{}", "\"added_tokens\" must be an array"},
      {"/added_tokens/0", "5", "expected an object"},
      {"/added_tokens/0/normalized", "true", "\"normalized\": true"},
      {"/added_tokens/0/id", "5", "its place in the vocabulary is 0"},
      {"/added_tokens/0/content", "\"[SEP]\"", "its place in the vocabulary is 3"},
      {"/added_tokens/0/content", "\"[NEW]\"", "its place in the vocabulary is 7"},
      {"/added_tokens/0/lstrip", "0", "\"lstrip\" must be true or false"},
  };
  for (const auto& [pointer, value, sentence] : refusals) {
    SCOPED_TRACE(fmt::format("{} = {}", pointer, value));
    Json json = good_json();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    expect_refused(json.dump(), sentence);
  }
}

TEST(TokenizerFiles, MissingSpecialTokensAreRefused) {
  for (const char* token : {"[UNK]", "[CLS]"}) {
    Json json = good_json();
    json["model"]["vocab"].erase(token);
    expect_refused(json.dump(), fmt::format("has no {}", token));
  }
}

TEST(TokenizerFiles, MalformedJsonIsRefused) {
  const std::string text = good;
  expect_refused("", "not valid JSON");
  expect_refused("[]", "expected an object");
  expect_refused(text.substr(0, text.size() / 2), "not valid JSON");
  std::string twice = text;
  twice.replace(twice.find("\"##able\": 5"), 11, "\"un\": 5");
  expect_refused(twice, "`un` is given twice");
  std::string bytes = text;
  bytes.replace(bytes.find("##able"), 2, "\xFF\xFF");
  expect_refused(bytes, "not valid JSON");
  expect_refused(std::string(100000, '['), "tokenizer.json");
}

TEST(TokenizerFiles, AddedTokensTakeSpacesAndStandAlone) {
  Json json = good_json();
  json["added_tokens"].push_back({{"id", 7}, {"content", "<x>"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}});
  json["added_tokens"].push_back({{"id", 8}, {"content", "ab"}, {"single_word", true}, {"normalized", false}});
  json["added_tokens"][3]["id"] = 6;
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  EXPECT_EQ(tokenizer->vocabulary_size(), 8);
  EXPECT_THAT(encoded(*tokenizer, "un <x> \u3000un<x><x>"), ElementsAre(4, 7, 4, 7, 7));
  EXPECT_THAT(encoded(*tokenizer, "ab unab abab"), ElementsAre(6, 1, 1));
  EXPECT_THAT(encoded(*tokenizer, "\U00010D50" "ab"), ElementsAre(1));      // a letter of Unicode 16
  EXPECT_THAT(encoded(*tokenizer, "\u00B7" "ab\u2014"), ElementsAre(1, 6, 1));  // signs
}

// The template's names decide, whatever they are called.
TEST(TokenizerFiles, TemplateNamesTheSpecialTokens) {
  Json json = good_json();
  json["post_processor"] = Json::parse(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "un"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "ab"}}]})");
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  EXPECT_EQ(tokenizer->cls_id(), 4);
  EXPECT_EQ(tokenizer->sep_id(), 6);
}

TEST(TokenizerFiles, FingerprintFollowsWhatChangesIds) {
  const auto print = [](const Json& json) { return parse_tokenizer_json(json.dump(), "tokenizer.json")->fingerprint(); };
  const std::string original = print(good_json());
  Json same = good_json();
  same["truncation"] = {{"max_length", 128}};
  same["normalizer"]["strip_accents"] = true;  // what null means with lower case
  EXPECT_EQ(print(same), original);
  for (const char* change : {"/normalizer/lowercase", "/normalizer/clean_text", "/normalizer/handle_chinese_chars", "/normalizer/strip_accents"}) {
    Json json = good_json();
    json[Json::json_pointer(change)] = false;
    EXPECT_NE(print(json), original) << change;
  }
  Json swapped = good_json();
  swapped["model"]["vocab"]["un"] = 6;
  swapped["model"]["vocab"]["ab"] = 4;
  EXPECT_NE(print(swapped), original);
  Json fewer = good_json();
  fewer["added_tokens"].erase(1);
  EXPECT_NE(print(fewer), original);
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("gpuhpc-tokenizer-{}-{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, std::string_view text) { write_text_file(folder_ / name, text); }
  void expect_refusal(ExitCode code, const std::string& sentence) {
    try {
      load_tokenizer(folder_);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(sentence));
      EXPECT_THAT(error.what(), HasSubstr(folder_.string()));
    }
  }
  fs::path folder_;
};

constexpr const char* vocabulary = "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nThe\nthe\ncafe\ncafé\n##s\n一\n";

TEST_F(TokenizerFolder, NothingThere) { expect_refusal(ExitCode::io, "neither tokenizer.json nor vocab.txt"); }

TEST_F(TokenizerFolder, VocabularyFollowsTokenizerConfig) {
  write("vocab.txt", vocabulary);
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The CAFÉS 一一[MASK]"), ElementsAre(6, 7, 9, 10, 10, 4));
  write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The cafés 一一"), ElementsAre(5, 8, 9, 10, 10));
  write("tokenizer_config.json", R"({"do_lower_case": true, "strip_accents": false, "tokenize_chinese_chars": false})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The CAFÉS 一一"), ElementsAre(6, 8, 9, 1));
  write("tokenizer_config.json", R"({"unk_token": {"content": "the"}, "mask_token": "cafe"})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "zzz [MASK] cafecafe"), ElementsAre(6, 6, 6, 6, 7, 7));
}

TEST_F(TokenizerFolder, BadConfigIsRefused) {
  write("vocab.txt", vocabulary);
  write("tokenizer_config.json", R"({"do_basic_tokenize": false})");
  expect_refusal(ExitCode::bad_data, "\"do_basic_tokenize\": false is not supported");
  write("tokenizer_config.json", R"({"never_split": ["x"]})");
  expect_refusal(ExitCode::bad_data, "\"never_split\" is not supported");
  write("tokenizer_config.json", R"({"do_lower_case": "true"})");
  expect_refusal(ExitCode::bad_data, "\"do_lower_case\" must be true or false");
  write("tokenizer_config.json", "{");
  expect_refusal(ExitCode::bad_data, "not valid JSON");
  write("tokenizer_config.json", "{}");
  write("added_tokens.json", R"({"x": 11})");
  expect_refusal(ExitCode::bad_data, "save the tokenizer as tokenizer.json");
}

TEST_F(TokenizerFolder, BadVocabularyIsRefused) {
  write("vocab.txt", "");
  expect_refusal(ExitCode::bad_data, "the vocabulary is empty");
  write("vocab.txt", "[UNK]\n[CLS]\n \t\n[SEP]\n");
  expect_refusal(ExitCode::bad_data, "vocab.txt:3: an empty line");
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nx\ny\nx\n");
  expect_refusal(ExitCode::bad_data, "\"x\" stands twice");
  write("vocab.txt", "[UNK]\n[CLS]\nx\n");
  expect_refusal(ExitCode::bad_data, "has no [SEP]");
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nx\xFF\n");
  expect_refusal(ExitCode::bad_data, "is not UTF-8");
}

TEST_F(TokenizerFolder, TokenizerJsonComesFirst) {
  write("vocab.txt", vocabulary);
  write("tokenizer.json", good);
  EXPECT_EQ(load_tokenizer(folder_)->vocabulary_size(), 7);
  write("tokenizer.json", "{}");
  expect_refusal(ExitCode::bad_data, "there is no model");
}

}  // namespace
}  // namespace gpuhpc
