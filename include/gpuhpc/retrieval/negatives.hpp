#pragma once
// Hard negatives: texts near an anchor that are none of its positives. The rules are those of
// sentence_transformers.util.mine_hard_negatives.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct NegativeOptions {
  static constexpr const char* section = "mining";
  std::int64_t negatives = 3;  // of a row
  std::int64_t range_min = 0;  // nearest allowed texts that are passed over
  std::int64_t range_max = 0;  // texts that are looked at; 0: as the rules need
  std::string max_score = "none", min_score = "none";
  std::string absolute_margin = "none", relative_margin = "none";
  std::string rows = "n-tuple";
  std::string cross_encoder;  // folder; empty: cosines are the scores
  bool scores = false;        // are written, for the losses that learn a teacher's
};
void declare(config::Section& section, NegativeOptions& options);

struct ScoredText {
  std::int32_t text = 0;
  float score = 0;
};

// Best first.
void sort_by_score(std::vector<ScoredText>& texts);

class NegativeRules {
 public:
  enum Reason { positive, absolute, relative, above, below, reasons };  // of leaving a text out
  static constexpr std::array<const char*, reasons> names{
      "positives", "absolute_margin", "relative_margin", "max_score", "min_score"};
  using Counts = std::array<std::int64_t, reasons>;

  // `positives`: rows of the anchor that has most. usage_error for what is no number, or a range
  // that leaves too few.
  NegativeRules(const NegativeOptions& options, std::int64_t positives);
  // Nearest texts of an anchor that have to be known, its positives among them.
  std::int64_t nearest() const { return nearest_; }
  // The negatives of one anchor, best first, out of its nearest texts, best first: fewer than asked
  // for where the rules leave fewer. `excluded`: its positives. `positive_score`: of the positive
  // that is least near. Counts what each rule leaves out.
  std::vector<ScoredText> choose(std::span<const ScoredText> nearest,
                                 std::span<const std::int32_t> excluded, float positive_score,
                                 Counts& counts) const;

 private:
  std::int64_t negatives_, range_min_, range_max_, nearest_;
  std::optional<float> max_score_, min_score_, absolute_margin_, relative_margin_;
};

}  // namespace gpuhpc
