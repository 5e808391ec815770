// What a tokenizer's files may say wrong: one sentence that names the file, exit 65.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/text/tokenizer.hpp"

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
  EXPECT_EQ(tokenizer->special().mask, -1);
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
      {"/post_processor/type", "\"Other\"", "\"Other\" is not supported"},
      {"/post_processor/cls", "[\"[CLS]\"]", "must be a token and its id"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": []})", "must hold A once"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": [1, 2, 3]})",
       "single: expected an object"},
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
      {"/decoder", R"({"type": "CTC"})", "decoder \"CTC\" is not supported"},
      {"/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
       "\"start\" must be a whole number"},
      {"/decoder", R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})",
       "\"content\" must be one character"},
      {"/decoder", R"({"type": "Metaspace", "replacement": ""})",
       "\"replacement\" must be one character"},
      {"/added_tokens", "{}", "\"added_tokens\" must be an array"},
      {"/added_tokens/0", "5", "expected an object"},
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

constexpr const char* good_bpe = R"({
  "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": "xy"}, "content": "a"}]},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
  "model": {"dropout": null, "unk_token": null, "continuing_subword_prefix": "", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "Ġ": 5, "Ġab": 6},
            "merges": ["#version: 0.2", "a b", ["Ġ", "ab"]]}})";

constexpr const char* good_unigram = R"({
  "added_tokens": [{"id": 4, "content": "<x>", "normalized": true}],
  "normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁"}]},
  "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]},
  "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["</s>", 0], ["▁a", -1.5], ["b", -2]]}})";

TEST(TokenizerFiles, GoodBpeLoads) {
  const auto tokenizer = parse_tokenizer_json(good_bpe, "tokenizer.json");
  EXPECT_THAT(encoded(*tokenizer, "ab abxyb<s>c ab"), ElementsAre(4, 6, 4, 0, 6));  // there is no c
  EXPECT_EQ(tokenizer->vocabulary_size(), 7);
  EXPECT_THAT(tokenizer->special().single.before, ElementsAre(0));
  Json json = Json::parse(good_bpe);
  json["model"]["unk_token"] = "</s>";
  EXPECT_THAT(encoded(*parse_tokenizer_json(json.dump(), "tokenizer.json"), "cc ab"),
              ElementsAre(1, 1, 6));
  json["model"]["fuse_unk"] = true;
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT(encoded(*parse_tokenizer_json(json.dump(), "tokenizer.json"), "abcc"),
              ElementsAre(6, 1));
}

TEST(TokenizerFiles, GoodUnigramLoads) {
  const auto tokenizer = parse_tokenizer_json(good_unigram, "tokenizer.json");
  EXPECT_THAT(encoded(*tokenizer, "abb\u3000cc<x>a"), ElementsAre(2, 3, 3, 0, 4, 2));
  EXPECT_EQ(tokenizer->vocabulary_size(), 5);
  EXPECT_EQ(tokenizer->special().unk, 0);
}

void expect_refusals(const char* file, const std::vector<Refusal>& refusals) {
  for (const auto& [pointer, value, sentence] : refusals) {
    SCOPED_TRACE(fmt::format("{} = {}", pointer, value));
    Json json = Json::parse(file);
    json[Json::json_pointer(pointer)] = Json::parse(value);
    expect_refused(json.dump(), sentence);
  }
}

TEST(TokenizerFiles, UnsupportedBpeIsRefused) {
  expect_refusals(
      good_bpe,
      {
          {"/model/dropout", "0.1", "\"dropout\" is not supported"},
          {"/model/continuing_subword_prefix", "\"##\"",
           "\"continuing_subword_prefix\" is not supported"},
          {"/model/end_of_word_suffix", "\"</w>\"", "\"end_of_word_suffix\" is not supported"},
          {"/model/byte_fallback", "true", "\"byte_fallback\" is not supported"},
          {"/model/ignore_merges", "true", "\"ignore_merges\" is not supported"},
          {"/model/unk_token", "\"?\"", "has no ?"},
          {"/model/merges/1", "\"a b c\"", "two tokens with a space between them, found \"a b c\""},
          {"/model/merges/1", "[\"a\"]", "every merge must be two tokens"},
          {"/model/merges/1", "\"a c\"", "merge \"a c\": the vocabulary has no \"c\""},
          {"/model/merges/1", "\"b a\"", "the vocabulary has no \"ba\""},
          {"/model/merges", "{}", "\"merges\" must be an array"},
          {"/model/vocab/a", "3", "id 3 is given to two tokens"},
          {"/pre_tokenizer/type", "\"Whitespace\"",
           "pre_tokenizer \"Whitespace\" is not supported"},
          {"/pre_tokenizer/use_regex", "false", "\"use_regex\" is not supported"},
          {"/normalizer/type", "\"NFKD\"", "normalizer \"NFKD\" is not supported"},
          {"/normalizer/normalizers/1/pattern", "{\"Regex\": \"x+\"}",
           "the pattern \"x+\" is not supported"},
          {"/normalizer/normalizers/1/pattern", "{\"String\": \"\"}", "the pattern is empty"},
          {"/post_processor/cls/0", "\"[CLS]\"", "has no [CLS]"},
          {"/added_tokens/0/id", "5", "its place in the vocabulary is 0"},
      });
}

TEST(TokenizerFiles, UnsupportedUnigramIsRefused) {
  expect_refusals(
      good_unigram,
      {
          {"/model/byte_fallback", "true", "\"byte_fallback\" is not supported"},
          {"/model/unk_id", "null", "\"unk_id\" is missing"},
          {"/model/unk_id", "4", "\"unk_id\" is 4, the vocabulary has 4 entries"},
          {"/model/vocab/2", "[\"a\"]", "every entry must be a token and its score"},
          {"/model/vocab/2/0", "\"b\"", "stands twice"},
          {"/model/vocab/2/0", "\"\"", "is empty"},
          {"/normalizer/precompiled_charsmap", "\"!\"", "is not base64"},
          {"/normalizer/precompiled_charsmap", "\"AAAA\"", "the charsmap is cut off"},
          {"/normalizer/precompiled_charsmap", "\"BAAAAAAAAAD/\"",
           "replacements of the charsmap are not UTF-8"},
          {"/pre_tokenizer", "null", "there is no pre_tokenizer"},
          {"/pre_tokenizer/pretokenizers/0/type", "\"Punctuation\"",
           "only Metaspace, alone or after WhitespaceSplit"},
          {"/pre_tokenizer/pretokenizers/1/replacement", "\"_\"", "must be U+2581"},
          {"/pre_tokenizer/pretokenizers/1/split", "false", "\"split\" is not supported"},
          {"/pre_tokenizer/pretokenizers/1/prepend_scheme", "\"first\"",
           "\"prepend_scheme\": \"first\" is not supported"},
          {"/post_processor/single/0/Sequence/id", "\"B\"", "must hold A once"},
          {"/post_processor/single/1/SpecialToken/id", "\"[SEP]\"", "has no [SEP]"},
          {"/post_processor/single/1/SpecialToken/type_id", "-1",
           "\"type_id\" must be a whole number"},
          {"/post_processor/pair", "[]", "must hold A, then B"},
          {"/added_tokens/0/id", "9", "its place in the vocabulary is 4"},
      });
}

TEST(TokenizerFiles, NormalizerThatMakesTextsHugeIsRefused) {
  Json json = Json::parse(good_bpe);
  const Json doubled = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  for (int i = 0; i < 60; ++i) json["normalizer"]["normalizers"].push_back(doubled);
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  EXPECT_THROW(encoded(*tokenizer, "aaaa"), Error);
}

TEST(TokenizerFiles, DecoderThatMakesTextsHugeIsRefused) {
  Json json = Json::parse(good_bpe);
  json["decoder"] = {{"type", "Sequence"}, {"decoders", Json::array()}};
  for (int i = 0; i < 60; ++i)
    json["decoder"]["decoders"].push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  const std::vector<std::int32_t> ids{2};
  EXPECT_THROW(tokenizer->decode(ids), Error);
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
  json["added_tokens"].push_back(
      {{"id", 7}, {"content", "<x>"}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}});
  json["added_tokens"].push_back(
      {{"id", 8}, {"content", "ab"}, {"single_word", true}, {"normalized", false}});
  json["added_tokens"][3]["id"] = 6;
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  EXPECT_EQ(tokenizer->vocabulary_size(), 8);
  EXPECT_THAT(encoded(*tokenizer, "un <x> \u3000un<x><x>"), ElementsAre(4, 7, 4, 7, 7));
  EXPECT_THAT(encoded(*tokenizer, "ab unab abab"), ElementsAre(6, 1, 1));
  EXPECT_THAT(encoded(*tokenizer,
                      "\U00010D50"
                      "ab"),
              ElementsAre(1));  // a letter of Unicode 16
  EXPECT_THAT(encoded(*tokenizer,
                      "\u00B7"
                      "ab\u2014"),
              ElementsAre(1, 6, 1));  // signs
}

// No decoder: the tokens themselves, as Hugging Face joins them.
TEST(TokenizerFiles, DecodesWithoutDecoder) {
  const auto tokenizer = parse_tokenizer_json(good, "tokenizer.json");
  const std::vector<std::int32_t> ids{0, 4, 5, -1, 3, 2, 9};
  EXPECT_EQ(tokenizer->decode(ids, false), "[PAD] un ##able [SEP] [CLS]");
  EXPECT_EQ(tokenizer->decode(ids, true), "un ##able [CLS]");  // which is no added token
  EXPECT_EQ(tokenizer->decode({}, true), "");
}

// The template's names decide, whatever they are called.
TEST(TokenizerFiles, TemplateNamesTheSpecialTokens) {
  Json json = good_json();
  json["post_processor"] = Json::parse(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "un"}}, {"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "ab"}}]})");
  const auto tokenizer = parse_tokenizer_json(json.dump(), "tokenizer.json");
  const SpecialTokens& special = tokenizer->special();
  EXPECT_THAT(special.single.before, ElementsAre(4, 2));
  EXPECT_THAT(special.single.after, ElementsAre(6));
  EXPECT_EQ(special.pair.second_segment, 1);  // the file says nothing of two texts
  EXPECT_EQ(special.pair.after.front().id, 6);
}

TEST(TokenizerFiles, FingerprintFollowsWhatChangesIds) {
  const auto print = [](const Json& json) {
    return parse_tokenizer_json(json.dump(), "tokenizer.json")->fingerprint();
  };
  const std::string original = print(good_json());
  Json same = good_json();
  same["truncation"] = {{"max_length", 128}};
  same["normalizer"]["strip_accents"] = true;  // what null means with lower case
  EXPECT_EQ(print(same), original);
  for (const char* change : {"/normalizer/lowercase", "/normalizer/clean_text",
                             "/normalizer/handle_chinese_chars", "/normalizer/strip_accents"}) {
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
    folder_ = fs::temp_directory_path() /
              fmt::format("gpuhpc-tokenizer-{}-{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, std::string_view text) {
    write_text_file(folder_ / name, text);
  }
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

constexpr const char* vocabulary =
    "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nThe\nthe\ncafe\ncafé\n##s\n一\n";

TEST_F(TokenizerFolder, NothingThere) {
  expect_refusal(ExitCode::io, "neither tokenizer.json nor vocab.txt");
}

TEST_F(TokenizerFolder, VocabularyFollowsTokenizerConfig) {
  write("vocab.txt", vocabulary);
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The CAFÉS 一一[MASK]"),
              ElementsAre(6, 7, 9, 10, 10, 4));
  write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The cafés 一一"), ElementsAre(5, 8, 9, 10, 10));
  write("tokenizer_config.json",
        R"({"do_lower_case": true, "strip_accents": false, "tokenize_chinese_chars": false})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "The CAFÉS 一一"), ElementsAre(6, 8, 9, 1));
  write("tokenizer_config.json", R"({"unk_token": {"content": "the"}, "mask_token": "cafe"})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "zzz [MASK] cafecafe"),
              ElementsAre(6, 6, 6, 6, 7, 7));
}

// Where they differ, versions of transformers follow one or the other.
TEST_F(TokenizerFolder, ConfigMustAgreeWithTokenizerJson) {
  write("tokenizer.json",
        read_text_file(std::string(GPUHPC_FIXTURES) + "/tokenizers/mpnet/tokenizer.json"));
  for (const char* other :
       {R"({"do_lower_case": false})", R"({"strip_accents": false})",
        R"({"tokenize_chinese_chars": false, "tokenizer_class": "BertTokenizer"})"}) {
    write("tokenizer_config.json", other);
    expect_refusal(ExitCode::bad_data, "says otherwise");
  }
  write("tokenizer_config.json",
        R"({"do_lower_case": false, "tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_NO_THROW(load_tokenizer(folder_));
}

TEST_F(TokenizerFolder, BadConfigIsRefused) {
  write("vocab.txt", vocabulary);
  write("tokenizer_config.json", R"({"do_basic_tokenize": false})");
  expect_refusal(ExitCode::bad_data, "\"do_basic_tokenize\": false is not supported");
  write("tokenizer_config.json", R"({"never_split": ["x"]})");
  expect_refusal(ExitCode::bad_data, "\"never_split\" is not supported");
  write("tokenizer_config.json", R"({"do_lower_case": "true"})");
  expect_refusal(ExitCode::bad_data, "\"do_lower_case\" must be true or false");
  write("tokenizer_config.json", R"({"truncation_side": "left"})");
  expect_refusal(ExitCode::bad_data, "\"truncation_side\" is not \"right\"");
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

TEST_F(TokenizerFolder, Gpt2FilesMayAddTokens) {
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
  expect_refusal(ExitCode::bad_data, "merges.txt is missing");
  write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "ab<|endoftext|>ba"), ElementsAre(2, 3, 1, 0));
  write("added_tokens.json", R"({"<x>": 4})");
  write("special_tokens_map.json",
        R"({"additional": "<x>", "mask_token": {"content": "<x>", "lstrip": true}})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "ab<x>"), ElementsAre(2, 4));
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"4": {"content": "<y>", "lstrip": true, "special": true}}})");
  EXPECT_THAT(encoded(*load_tokenizer(folder_), "ab  <y>"), ElementsAre(2, 4));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<y>"}}})");
  expect_refusal(ExitCode::bad_data, "\"<y>\" has the id 7, but its place in the vocabulary is 4");
  write("merges.txt", "a b\nab\n");
  expect_refusal(ExitCode::bad_data, "merges.txt:2");
}

TEST_F(TokenizerFolder, SentencePieceNeedsItsFamilyAndItsBytes) {
  const std::string file =
      read_text_file(std::string(GPUHPC_FIXTURES) + "/tokenizers/t5-files/spiece.model");
  write("spiece.model", file);
  expect_refusal(ExitCode::bad_data, "SentencePiece files are read for DeBERTa");
  write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 5})");
  EXPECT_EQ(load_tokenizer(folder_)->vocabulary_size(), 605);
  for (std::size_t size = 0; size < file.size();
       size += 997) {  // cut anywhere: refused, or whole fields are missing
    write("spiece.model", file.substr(0, size));
    try {
      EXPECT_GE(load_tokenizer(folder_)->vocabulary_size(), 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
    }
  }
  write("spiece.model", "\x0A\xFF\xFF\xFF\xFF\x0F");
  expect_refusal(ExitCode::bad_data, "is not a SentencePiece model, or it is cut off");
  write("spiece.model", file + "\x12\x02\x18\x02");  // model_type: BPE
  expect_refusal(ExitCode::bad_data, "only Unigram models are read");
}

TEST_F(TokenizerFolder, PickleNamesTheConversion) {
  write("bpe_encoder.bin", "");
  expect_refusal(ExitCode::bad_data, "from_pretrained");
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
