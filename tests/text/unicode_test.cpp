// Every code point of Unicode, alone and inside words, against the normaliser of Hugging Face tokenizers 0.23:
// checksums of its words (data_tools/fixtures/make_wordpiece.py).
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "gpuhpc/text/wordpiece.hpp"
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
  constexpr NormalizerSettings all[] = {{true, true, true, true}, {true, true, false, false}, {true, true, false, true}, {false, false, true, false}};
  const NormalizerSettings& normalizer = all[GetParam()];
  const std::string sums = read_gz(std::string(GPUHPC_FIXTURES) + "/unicode_words.gz");
  ASSERT_EQ(sums.size(), std::size(all) * code_points / block * 4);
  WordPieceSettings settings;
  settings.normalizer = normalizer;
  const auto tokenizer = parse_vocabulary("[UNK]\n[CLS]\n[SEP]\n", settings, "vocab.txt");
  std::string line;
  for (std::uint32_t first = 0; first < code_points; first += block) {
    uLong crc = 0;
    for (std::uint32_t c = first; c < first + block; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      const std::string character = utf8(c);
      for (const auto& text : {character, "a" + character + "b", "a\u302E" + character + "\u1B44b"}) {
        if (text.size() > 6 && !normalizer.strip_accents) continue;  // marks are only reordered when accents are stripped
        line.clear();
        for (const auto& word : tokenizer->words(text)) line += (line.empty() ? "" : "\x1F") + word;
        line += '\n';
        crc = crc32(crc, reinterpret_cast<const Bytef*>(line.data()), static_cast<uInt>(line.size()));
      }
    }
    std::uint32_t expected;
    std::memcpy(&expected, sums.data() + 4 * (static_cast<std::size_t>(GetParam()) * (code_points / block) + first / block), 4);
    EXPECT_EQ(crc, expected) << "code points from " << std::hex << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, UnicodeWords, testing::Range(0, 4));

}  // namespace
}  // namespace gpuhpc
