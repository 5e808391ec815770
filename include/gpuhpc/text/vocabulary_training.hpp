#pragma once
// Vocabularies learnt from texts: WordPiece as BERT's and byte-level BPE as RoBERTa's, merge by
// merge (Sennrich et al. 2016), equal to Hugging Face tokenizers' trainers on the same texts.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpuhpc/text/bert_words.hpp"

namespace gpuhpc {

enum class Subwords { wordpiece, bytes };

// The words of texts and how often each occurs: lower case without accents, cut at white space and
// punctuation (wordpiece); GPT-2's pattern (bytes). Texts are UTF-8.
class WordCounts {
 public:
  explicit WordCounts(Subwords kind) : kind_(kind) {}
  void add(std::string_view text);
  void add(std::string_view word, std::int64_t times);
  std::int64_t size() const { return std::ssize(counts_); }
  Subwords kind() const { return kind_; }
  auto begin() const { return counts_.begin(); }  // pairs of word and count, in no order
  auto end() const { return counts_.end(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  Subwords kind_;
  BertWords words_{BertWordSettings{}};
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

struct VocabularySettings {
  std::int64_t size = 30000;         // entries, special tokens and single characters included
  std::int64_t least_count = 2;      // of a pair that is merged
  std::int64_t alphabet = 1000;      // wordpiece: the most frequent characters; others become [UNK]
  std::vector<std::string> special;  // the first entries
};

struct LearntVocabulary {
  Subwords kind = Subwords::wordpiece;
  std::int64_t specials = 0;
  std::vector<std::string> tokens;                            // by id
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // ids, in their order
};

// Single characters by code point, behind them (wordpiece) those with ## before them, then merges
// by descending count; of equal counts the pair of smaller ids first. Fewer than `size` entries
// when no pair occurs `least_count` times any more. input_error when characters and special tokens
// alone are more than `size`. `merged()` is called after each merge. Where Hugging Face leaves an
// order to its hash table (entries of ##x, equally frequent characters at the edge of the
// alphabet), it is the order of code points here.
LearntVocabulary learn_vocabulary(const WordCounts& counts, const VocabularySettings& settings,
                                  const std::function<void()>& merged = {});

// The special tokens of BERT (wordpiece) and RoBERTa (bytes), in the order of their ids.
std::vector<std::string> special_tokens(Subwords kind);

// tokenizer.json, tokenizer_config.json and the older vocab.txt (wordpiece) or vocab.json with
// merges.txt (bytes): what load_tokenizer and transformers read. The vocabulary begins with
// special_tokens(kind).
void write_tokenizer(const std::filesystem::path& folder, const LearntVocabulary& vocabulary);

}  // namespace gpuhpc
