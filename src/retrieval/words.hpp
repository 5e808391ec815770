#pragma once
// Words of one text after another, with buffers that are kept between texts. Private to the room.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/retrieval/tfidf.hpp"

namespace gpuhpc {

class WordSplitter {
 public:
  // Views into a buffer that lives until the next call.
  std::span<const std::string_view> split(std::string_view text);

 private:
  void split_ascii();
  void split_unicode();
  std::string lower_;
  std::vector<std::string_view> words_;
};

// Hashes of all n-grams of a text, in text order, repeated as often as they occur.
class TermHasher {
 public:
  explicit TermHasher(const TfidfOptions& options) : options_(options) {}
  std::vector<std::uint64_t>& hash(std::string_view text);

 private:
  TfidfOptions options_;
  WordSplitter splitter_;
  std::vector<std::string_view> kept_;
  std::string term_;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace gpuhpc
