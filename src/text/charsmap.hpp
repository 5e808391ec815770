#pragma once
// SentencePiece's compiled normalisation rules ("precompiled_charsmap") as Hugging Face tokenizers
// 0.23 applies them: a grapheme cluster of less than six bytes is replaced by the rule of its
// shortest prefix that has one, else its characters one by one.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

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

}  // namespace gpuhpc
