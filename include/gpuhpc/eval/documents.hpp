#pragma once
// What every measure is computed from: gold, predicted and scored classes of the same documents,
// side by side.
#include <cstdint>
#include <string>
#include <vector>

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
  bool has_scores() const { return !scores.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};

}  // namespace gpuhpc
