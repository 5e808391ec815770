#pragma once
// Normalisers of tokenizer.json for whole texts (byte-level BPE and Unigram), one after another as
// Hugging Face tokenizers 0.23 applies them.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpuhpc {

// How many times longer a text may become, against files that make it huge; one character becomes
// eleven times its bytes at most in Unicode's own rules.
constexpr std::size_t most_growth = 64;

// SentencePiece's compiled normalisation rules ("precompiled_charsmap"): a grapheme cluster of less
// than six bytes is replaced by the rule of its shortest prefix that has one, else its characters
// one by one.
class Charsmap {
 public:
  // uint32 bytes of the trie, the trie (uint32 units of a double array, Darts), replacements that
  // end in NUL. input_error when these do not fit together.
  Charsmap(std::string_view bytes, const std::string& where);
  Charsmap(const Charsmap&) = delete;
  Charsmap& operator=(const Charsmap&) = delete;

  // Appends the normalised `text`, which is well-formed UTF-8.
  void apply(std::string_view text, std::string& out) const;
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  std::optional<std::string_view> find(std::string_view part) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
  std::array<std::optional<std::string_view>, 128> ascii_;  // views into replacements_
  std::string fingerprint_;
};

std::string decode_base64(std::string_view text, const std::string& where);

struct StripSpaces {
  bool left = true, right = true;
};
struct ComposeText {};  // NFC
struct LowercaseText {};
struct ReplaceText {
  enum class Pattern {
    literal,      // `text`
    spaces,       // " {2,}": two spaces or more
    white_space,  // "\s{2,}|[\n\r\t]": two white space characters or more, or one of these three
  };
  Pattern pattern = Pattern::literal;
  std::string text, content;
};
void replace_text(std::string_view text, const ReplaceText& rule, std::string& out);  // appends
using NormalizerStep = std::variant<StripSpaces, ComposeText, LowercaseText, ReplaceText,
                                    std::shared_ptr<const Charsmap>>;

class TextNormalizer {
 public:
  struct Buffers {
    std::string text, next;
    std::vector<char32_t> points, more_points;
  };

  TextNormalizer() = default;
  explicit TextNormalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  // `text` is well-formed UTF-8. The result is `text` itself or lies in `buffers`.
  std::string_view apply(std::string_view text, Buffers& buffers) const;
  std::string fingerprint() const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace gpuhpc
