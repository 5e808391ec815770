#pragma once
// How a class is written in files of labels: its id, or its name. Both are read; names are written
// where they are clear.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

class ClassWords {
 public:
  explicit ClassWords(const Taxonomy& taxonomy)
      : taxonomy_(&taxonomy) {}  // which must outlive this
  // The class of a word: digits are an id, anything else a name. Nothing when unknown.
  std::optional<std::int32_t> find(std::string_view word) const;
  // The name, or the id where the name would not be read back (all digits, a comma or a quote in
  // it, blank edges).
  std::string word(std::int32_t class_id) const;
  std::int64_t size() const { return taxonomy_->size(); }

 private:
  const Taxonomy* taxonomy_;
};

}  // namespace gpuhpc
