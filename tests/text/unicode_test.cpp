// Every code point of Unicode, alone and inside words, against the normaliser of Hugging Face
// tokenizers 0.23: checksums of its words (data_tools/fixtures/make_wordpiece.py), then against the
// whole tokenizers for whole texts.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "gpuhpc/text/bert_words.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "records.hpp"

namespace gpuhpc {
namespace {

constexpr std::uint32_t block = 1024, code_points = 0x110000;

std::string utf8(std::uint32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned lead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(lead[more] | (c >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
  return out;
}

class UnicodeWords : public testing::TestWithParam<int> {};

TEST_P(UnicodeWords, EveryCodePointEqualsHuggingFace) {
  constexpr BertWordSettings all[] = {{true, true, true, true},
                                      {true, true, false, false},
                                      {true, true, false, true},
                                      {false, false, true, false}};
  const BertWordSettings& normalizer = all[GetParam()];
  const std::string sums = read_gz(std::string(GPUHPC_FIXTURES) + "/unicode_words.gz");
  ASSERT_EQ(sums.size(), std::size(all) * code_points / block * 4);
  BertWords words(normalizer);
  std::string line;
  for (std::uint32_t first = 0; first < code_points; first += block) {
    uLong crc = 0;
    for (std::uint32_t c = first; c < first + block; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      const std::string character = utf8(c);
      for (const auto& text :
           {character, "a" + character + "b", "a\u302E" + character + "\u1B44b"}) {
        if (text.size() > 6 && !normalizer.strip_accents)
          continue;  // marks are only reordered when accents are stripped
        line.clear();
        words.split(text, [&](std::string_view word, std::size_t) {
          line.append(line.empty() ? "" : "\x1F").append(word);
        });
        line += '\n';
        crc =
            crc32(crc, reinterpret_cast<const Bytef*>(line.data()), static_cast<uInt>(line.size()));
      }
    }
    std::uint32_t expected;
    std::memcpy(&expected,
                sums.data() + 4 * (static_cast<std::size_t>(GetParam()) * (code_points / block) +
                                   first / block),
                4);
    EXPECT_EQ(crc, expected) << "code points from " << std::hex << first;
  }
}

// What Oniguruma's \p{L}, \p{N} and \s match, NFC, and which characters join the one before them
// (data_tools/fixtures/make_tokenizers.py).
struct UnicodeTexts {
  const char* folder;
  std::vector<std::string> (*of)(const std::string& character);
};
const UnicodeTexts unicode_texts[] = {
    {"pattern", [](const std::string& c) { return std::vector{"a" + c + " 1" + c + " !" + c}; }},
    {"nfc",
     [](const std::string& c) {
       return std::vector{"A" + c + "\u0327\u0301", c + "\u0301\u1161"};
     }},
    {"clusters",
     [](const std::string& c) {
       return std::vector{"a" + c + "b", c + "ab"};
     }},
};

class UnicodeIds : public testing::TestWithParam<std::size_t> {};

TEST_P(UnicodeIds, EveryCodePointEqualsHuggingFace) {
  const std::string folder = std::string(GPUHPC_FIXTURES) + "/tokenizers/",
                    sums = read_gz(folder + "unicode.gz");
  ASSERT_EQ(sums.size(), std::size(unicode_texts) * code_points / block * 4);
  const UnicodeTexts& texts = unicode_texts[GetParam()];
  const auto tokenizer = load_tokenizer(folder + texts.folder);
  for (std::uint32_t first = 0; first < code_points; first += block) {
    uLong crc = 0;
    for (std::uint32_t c = first; c < first + block; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      for (const auto& text : texts.of(utf8(c))) {
        std::vector<std::int32_t> record = ids_of(*tokenizer, text);
        record.insert(record.begin(), static_cast<std::int32_t>(record.size()));
        crc = crc32(crc, reinterpret_cast<const Bytef*>(record.data()),
                    static_cast<uInt>(4 * record.size()));
      }
    }
    std::uint32_t expected;
    std::memcpy(&expected, sums.data() + 4 * (GetParam() * (code_points / block) + first / block),
                4);
    EXPECT_EQ(crc, expected) << texts.folder << ": code points from " << std::hex << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, UnicodeIds,
                         testing::Range(std::size_t{0}, std::size(unicode_texts)));
INSTANTIATE_TEST_SUITE_P(Settings, UnicodeWords, testing::Range(0, 4));

}  // namespace
}  // namespace gpuhpc
