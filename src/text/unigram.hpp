#pragma once
// Unigram model of SentencePiece (Kudo 2018) with ids equal to those of Hugging Face tokenizers
// 0.23 (Metaspace, Viterbi in fp64).
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/text/wordpiece.hpp"
#include "token_trie.hpp"

namespace gpuhpc {

struct UnigramSettings {
  std::vector<VocabularyEntry> vocabulary;  // ids 0, 1, 2, ...; "▁" stands for a space
  std::vector<double> scores;               // log-probabilities, one an entry
  std::int32_t unk_id = 0;
  bool split_white_space = false;  // all white space parts words, else spaces alone
  bool add_prefix_space =
      true;  // a word at the begin is given a space (split_white_space: every word)
};

class Unigram {
 public:
  struct Work {    // of one thread
    struct Node {  // best path that ends here
      double score;
      std::int32_t id;
      std::uint32_t begin;
    };
    std::vector<Node> nodes;
  };

  // input_error: ids that are not 0, 1, 2, ..., a score that is not finite, no entry `unk_id`.
  Unigram(const UnigramSettings& settings, const std::string& where);

  // `piece` as words are cut from it, at the end of `out`. A space stands for "▁" in here: one byte
  // instead of three.
  void prepare(std::string_view piece, std::string& out) const;
  // Calls word(begin, end) for each word of `text`, in order: a space and what follows up to the
  // next.
  template <typename Word>
  static void split(std::string_view text, Word&& word) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at + 1), text.size());
      word(at, end);
      at = end;
    }
  }
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  TokenTrie trie_;
  std::vector<double> scores_;
  double unk_score_ = 0;
  std::int32_t unk_;
  bool split_white_space_, add_prefix_space_;
  std::string fingerprint_;
};

}  // namespace gpuhpc
