#pragma once
// Byte-level BPE of GPT-2 (Radford et al. 2019; merges: Sennrich et al. 2016) with ids equal to
// those of Hugging Face tokenizers 0.23: GPT-2's pattern cuts the text into words, and the merge of
// lowest rank is applied until none is left.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuhpc/text/wordpiece.hpp"

namespace gpuhpc {

struct ByteBpeSettings {
  std::vector<VocabularyEntry> vocabulary;  // bytes written as GPT-2 writes them: "Ġ" is a space
  std::vector<std::pair<std::string, std::string>> merges;
  std::string unk_token;          // of bytes that the vocabulary lacks; empty: they are dropped
  bool fuse_unk = false;          // unknown bytes in a row are one
  bool add_prefix_space = false;  // a text that begins with no space is given one
};

// Rank of a merge by the ids it joins; ranks count from 0.
class MergeTable {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFu;
  explicit MergeTable(std::size_t merges);
  void set(std::int32_t left, std::int32_t right,
           std::uint32_t rank);  // the last rank given counts
  std::uint32_t rank(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = make_key(left, right);
    for (std::size_t place = key * multiplier >> shift_;;
         place = (place + 1) & (slots_.size() - 1)) {
      if (slots_[place].rank == none || slots_[place].key == key) return slots_[place].rank;
    }
  }

 private:
  static constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15u;
  static std::uint64_t make_key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t rank = none;
  };
  std::vector<Slot> slots_;  // at least half are free
  int shift_;
};

class ByteBpe {
 public:
  struct Work {  // of one thread
    struct Part {
      std::int32_t id;
      std::uint32_t rank;  // of the merge with the part to the right
    };
    struct Candidate {
      std::uint32_t rank, position;
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : position > other.position;
      }
    };
    std::vector<Part> parts;
    std::vector<std::uint32_t> before, after;
    std::vector<Candidate> heap;
  };

  // input_error: a merge whose parts or result the vocabulary lacks, no unknown token of that name.
  ByteBpe(const ByteBpeSettings& settings, const std::string& where);

  // `piece` as words are cut from it, at the end of `out`.
  void prepare(std::string_view piece, std::string& out) const;
  // Calls word(begin, end) for each word of `text`, in order.
  template <typename Word>
  static void split(std::string_view text, Word&& word);
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  static std::size_t contraction(std::string_view text, std::size_t at);
  static std::size_t word_end(std::string_view text, std::size_t at);
  void merge_short(Work& work) const;
  void merge_long(Work& work) const;

  std::array<std::int32_t, 256> byte_ids_{};  // -1: not in the vocabulary
  std::int32_t unk_ = -1;
  bool fuse_unk_, add_prefix_space_;
  MergeTable merges_;
  std::vector<std::int32_t> merged_ids_;  // by rank
  std::string fingerprint_;
};

template <typename Word>
void ByteBpe::split(std::string_view text, Word&& word) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(text, at);
    word(at, end);
    at = end;
  }
}

}  // namespace gpuhpc
