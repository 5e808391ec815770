#pragma once
// What every measure is computed from: gold, predicted and scored classes of the same documents,
// side by side.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct ClassScore {
  std::int32_t class_id = 0;
  float score = 0;  // any scale; higher is better
};

// Puts scores into the one order that all ranking measures use: best first, the smaller class id
// first among equals.
void sort_scores(std::vector<ClassScore>& scores);

// N documents, one entry each in every vector (`scores` is empty as a whole when only labels are
// known).
struct LabelledDocuments {
  std::vector<std::string> ids;                 // (N)
  std::vector<std::vector<std::int32_t>> gold;  // (N) ascending, unique, never empty
  std::vector<std::vector<std::int32_t>>
      predicted;  // (N) ascending, unique; empty: nothing was predicted
  std::vector<std::vector<ClassScore>>
      scores;                     // (N) or (0); in the order of sort_scores; classes may be missing
  std::int64_t without_gold = 0;  // predicted documents left out because gold does not know them
  std::int64_t without_prediction = 0;  // gold documents counted as an empty prediction
  std::string first_without_prediction{};
  bool has_scores() const { return !scores.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};

// How a class is written in files of labels: its id, or its name (where several classes have it,
// its path). Both are read; names are written where they are clear.
class ClassWords {
 public:
  explicit ClassWords(const Taxonomy& taxonomy)
      : taxonomy_(&taxonomy) {}  // which must outlive this
  // The class of a word: digits are an id, anything else a name or path. Nothing when unknown.
  std::optional<std::int32_t> find(std::string_view word) const;
  // The name or path, or the id where that would not be read back (all digits, a comma or a quote
  // in it, blank edges).
  std::string word(std::int32_t class_id) const;
  // The classes that a word could mean, were it read as a name.
  std::vector<std::int32_t> alike(std::string_view word) const { return taxonomy_->named(word); }
  std::int64_t size() const { return taxonomy_->size(); }

 private:
  const Taxonomy* taxonomy_;
};

}  // namespace gpuhpc
