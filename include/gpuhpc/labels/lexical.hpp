#pragma once
// Lexical evidence (quality recipe, step 5): how much of a class's name, weighted by rarity, stands
// in the document.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// `[a-z0-9]+` of the lower-cased text, longer than one letter, no stop word, stemmed; in the order
// of the text. A rule for the names of classes alone; text/words.hpp has those for documents.
std::vector<std::string> lexical_tokens(std::string_view text);
// ies->y, es, s, ing, ion, ed: the first ending that fits goes when 3 letters remain.
std::string crude_stem(std::string_view token);

class LexicalEvidence {
 public:
  explicit LexicalEvidence(const Taxonomy& taxonomy);  // keeps no reference
  std::int64_t terms() const {
    return static_cast<std::int64_t>(idf_.size());
  }  // distinct tokens of all leaf names
  // Training pass: frequencies (terms) += 1 for every term present. Integer counts: ranks
  // all-reduce them (sum).
  void count(std::string_view text, std::span<std::int64_t> frequencies) const;
  // idf = ln((N+1)/(df+1)) + .1 over N training documents.
  void set_frequencies(std::span<const std::int64_t> frequencies, std::int64_t documents);
  std::span<const float> idf() const { return idf_; }
  void set_idf(
      std::span<const float> idf);  // of a stored model; throws input_error when the count differs

  // evidence (K): lex(d, leaf of path k) in [0, 1]; 0 for a name without tokens.
  void evidence(std::string_view text, std::span<float> evidence) const;
  // logits (B, K) += weight * evidence of the block's texts.
  void add(std::span<const std::string> texts, double weight, MutableMatrixView logits) const;

 private:
  std::vector<std::int32_t> present(std::string_view text) const;  // distinct term ids, ascending
  void weigh();
  std::unordered_map<std::string, std::int32_t> term_of_;
  std::vector<std::vector<std::int32_t>> leaf_terms_;  // of each distinct leaf, ascending
  std::vector<std::int32_t> leaf_of_path_;             // (K): index into leaf_terms_
  std::vector<std::vector<std::int32_t>> leaves_of_term_;
  std::vector<float> idf_;
  std::vector<double> total_;  // idf sum of each leaf's name
};

}  // namespace gpuhpc
