#include "gpuhpc/retrieval/negatives.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void declare(config::Section& section, NegativeOptions& options) {
  section
      .option("negatives", options.negatives,
              "negatives of each anchor; a row with fewer is left out")
      .range(1, 1000);
  section
      .option("range-min", options.range_min,
              "the nearest texts that are no positives are passed over, this many")
      .range(0, 1e6);
  section
      .option("range-max", options.range_max,
              "nearest texts that are looked at; 0: as many as the other rules need")
      .range(0, 1e6);
  section.option("max-score", options.max_score,
                 "a score (cosine, or the cross-encoder's) above this is no negative; a number or "
                 "none");
  section.option("min-score", options.min_score,
                 "a score below this is no negative; a number or none");
  section.option("absolute-margin", options.absolute_margin,
                 "how far a negative's score lies below the positive's; a number or none");
  section.option("relative-margin", options.relative_margin,
                 "the same, as a share of the positive's score; a number or none");
  section
      .option("cross-encoder", options.cross_encoder,
              "folder of a cross-encoder with one label, whose scores of the nearest texts and of "
              "the positives take the place of cosines; none: cosines")
      .existing_path();
  section.option("rows", options.rows, "n-tuple: all negatives in one row; triplet: a row for each")
      .one_of({"n-tuple", "triplet"});
  section.option("scores", options.scores,
                 "write the scores that negatives were chosen by: `scores`, an array of the "
                 "positive's and the negatives', for --embedding.loss distill; rows of one "
                 "negative also have `margin`, their difference, for margin-mse");
}

namespace {

std::optional<float> number_or_none(const char* option, const std::string& text) {
  if (text == "none") return std::nullopt;
  float number = 0;
  if (!config::parse_number(text, number))
    throw usage_error("--mining.{} {}: give a number or none", option, text);
  return number;
}

}  // namespace

NegativeRules::NegativeRules(const NegativeOptions& o, std::int64_t positives)
    : negatives_(o.negatives),
      range_min_(o.range_min),
      range_max_(o.range_max),
      max_score_(number_or_none("max-score", o.max_score)),
      min_score_(number_or_none("min-score", o.min_score)),
      absolute_margin_(number_or_none("absolute-margin", o.absolute_margin)),
      relative_margin_(number_or_none("relative-margin", o.relative_margin)) {
  // Ten times as many where rules leave some out, as sentence-transformers looks at.
  const bool rescored = !o.cross_encoder.empty(), some_go = max_score_ || absolute_margin_ ||
                                                            relative_margin_ ||
                                                            (rescored && min_score_);
  if (rescored && !some_go)
    throw usage_error(
        "--mining.cross-encoder {} without a rule on its scores; give --mining.max-score, "
        "min-score, absolute-margin or relative-margin",
        o.cross_encoder);
  if (range_max_ == 0) range_max_ = range_min_ + negatives_ * (some_go ? 10 : 1) + positives;
  if (negatives_ > range_max_ - range_min_)
    throw usage_error(
        "--mining.negatives {} do not fit between --mining.range-min {} and --mining.range-max {}; "
        "ask for fewer or widen the range",
        negatives_, range_min_, range_max_);
  nearest_ = range_max_ + positives;
}

void sort_by_score(std::vector<ScoredText>& texts) {
  std::ranges::stable_sort(texts, std::greater{}, &ScoredText::score);
}

std::vector<ScoredText> NegativeRules::choose(std::span<const ScoredText> nearest,
                                              std::span<const std::int32_t> excluded,
                                              float positive_score, Counts& counts) const {
  // The reason to leave a text out, if there is one.
  const auto reason = [&](const ScoredText& one) {
    if (std::ranges::find(excluded, one.text) != excluded.end()) return positive;
    if (absolute_margin_ && one.score + *absolute_margin_ > positive_score) return absolute;
    // A share of its size: a negative cosine's limit lies below it too.
    if (relative_margin_ &&
        one.score > positive_score - std::abs(positive_score) * *relative_margin_)
      return relative;
    if (max_score_ && one.score > *max_score_) return above;
    if (min_score_ && one.score < *min_score_) return below;
    return reasons;
  };
  std::vector<ScoredText> chosen;
  std::int64_t allowed = 0;
  for (const ScoredText& one : nearest) {
    if (const Reason why = reason(one); why != reasons)
      ++counts[why];
    else if (++allowed > range_max_ || std::ssize(chosen) == negatives_)
      break;
    else if (allowed > range_min_)
      chosen.push_back(one);
  }
  return chosen;
}

}  // namespace gpuhpc
