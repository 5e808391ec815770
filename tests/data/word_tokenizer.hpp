#pragma once
// A tokenizer for tests: one id a blank-separated word.
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(std::int64_t vocabulary = 1000) : vocabulary_(vocabulary) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    std::uint64_t hash = 0;
    bool inside = false;
    for (const char c : text) {
      if (c != ' ') {
        hash = hash * 31 + static_cast<unsigned char>(c);
        inside = true;
      } else if (inside) {
        ids.push_back(id_of(hash));
        hash = 0;
        inside = false;
      }
    }
    if (inside) ids.push_back(id_of(hash));
  }
  std::int64_t vocabulary_size() const override { return vocabulary_; }
  std::string decode(std::span<const std::int32_t>, bool) const override { return ""; }
  const SpecialTokens& special() const override { return special_; }
  std::string fingerprint() const override { return "words of " + std::to_string(vocabulary_); }

 private:
  std::int32_t id_of(std::uint64_t hash) const {
    return static_cast<std::int32_t>(5 + hash % static_cast<std::uint64_t>(vocabulary_ - 5));
  }
  std::int64_t vocabulary_;
  SpecialTokens special_{{{1}, {2}}, {}, 0, 3, 4, -1, {0, 1, 2, 3, 4}};
};

}  // namespace gpuhpc
