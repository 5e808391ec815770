#pragma once
// A tokenizer for tests: one id a blank-separated word.
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc::testing {

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
  std::int32_t cls_id() const override { return 1; }
  std::int32_t sep_id() const override { return 2; }
  std::int32_t pad_id() const override { return 0; }
  std::int32_t unk_id() const override { return 3; }
  std::int32_t mask_id() const override { return 4; }
  std::string fingerprint() const override { return "words of " + std::to_string(vocabulary_); }

 private:
  std::int32_t id_of(std::uint64_t hash) const {
    return static_cast<std::int32_t>(5 + hash % static_cast<std::uint64_t>(vocabulary_ - 5));
  }
  std::int64_t vocabulary_;
};

}  // namespace gpuhpc::testing
