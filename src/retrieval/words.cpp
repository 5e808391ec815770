#include "words.hpp"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>
#include <xxhash.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_ascii_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

// What Python's `\w` takes: letters, everything numeric and `_`; combining marks are not words.
bool is_word(UChar32 c) {
  if (c < 0x80) return c >= 0 && is_ascii_word(static_cast<char>(c));
  return (U_GET_GC_MASK(c) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

}  // namespace

std::span<const std::string_view> WordSplitter::split(std::string_view text) {
  words_.clear();
  lower_.clear();
  if (is_ascii(text)) {
    lower_.assign(text);
    for (char& c : lower_) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    }
    split_ascii();
  } else {
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&lower_, static_cast<std::int32_t>(text.size()));
    icu::CaseMap::utf8ToLower("", 0,
                              icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
                              sink, nullptr, status);
    if (U_FAILURE(status))
      throw internal_error("ICU could not lower a text of {} bytes: {}", text.size(),
                           u_errorName(status));
    split_unicode();
  }
  return words_;
}

void WordSplitter::split_ascii() {
  const std::string_view all = lower_;
  std::size_t i = 0;
  while (i < all.size()) {
    while (i < all.size() && !is_ascii_word(all[i])) ++i;
    const std::size_t first = i;
    while (i < all.size() && is_ascii_word(all[i])) ++i;
    if (i - first >= 2) words_.push_back(all.substr(first, i - first));
  }
}

void WordSplitter::split_unicode() {
  const std::string_view all = lower_;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(all.data());
  const auto size = static_cast<std::int32_t>(all.size());
  std::int32_t i = 0, first = 0, letters = 0;
  const auto finish = [&](std::int32_t last) {
    if (letters >= 2)
      words_.push_back(
          all.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
    letters = 0;
  };
  while (i < size) {
    const std::int32_t start = i;
    UChar32 c = 0;
    U8_NEXT(bytes, i, size, c);  // < 0: broken bytes
    if (is_word(c)) {
      if (letters++ == 0) first = start;
    } else {
      finish(start);
    }
  }
  finish(size);
}

std::vector<std::string> words_of(std::string_view text) {
  WordSplitter splitter;
  const auto words = splitter.split(text);
  return {words.begin(), words.end()};
}

std::uint64_t term_hash(std::string_view term) {
  const std::uint64_t hash = XXH3_64bits(term.data(), term.size());
  return hash == 0 ? 1 : hash;  // 0 marks a free slot of the counting table
}

std::vector<std::uint64_t>& TermHasher::hash(std::string_view text) {
  kept_.clear();
  hashes_.clear();
  for (const std::string_view word : splitter_.split(text)) {
    if (!options_.english_stop_words || !is_english_stop_word(word)) kept_.push_back(word);
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    term_.clear();
    const std::size_t last =
        std::min(kept_.size(), i + static_cast<std::size_t>(options_.longest_ngram));
    for (std::size_t j = i; j < last; ++j) {
      if (j > i) term_ += ' ';
      term_ += kept_[j];
      hashes_.push_back(term_hash(term_));
    }
  }
  return hashes_;
}

}  // namespace gpuhpc
