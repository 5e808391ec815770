#pragma once
// Normalisers of tokenizer.json for whole texts (byte-level BPE and Unigram), one after another as
// Hugging Face tokenizers 0.23 applies them.
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "charsmap.hpp"

namespace gpuhpc {

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
