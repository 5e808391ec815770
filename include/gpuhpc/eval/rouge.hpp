#pragma once
// ROUGE (Lin 2004) as the rouge-score package counts it, without stemming: words are runs of ASCII
// letters and digits in lower case.
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

struct RougeScore {
  double precision = 0, recall = 0, f1 = 0;
};
// Words, pairs of words, longest common subsequence, and that subsequence line by line.
struct Rouge {
  RougeScore rouge1, rouge2, rouge_l, rouge_lsum;
};
Rouge rouge(std::string_view reference, std::string_view text);

// The mean F1 over texts, with a bootstrap interval of 95%.
struct MeanRouge {
  double mean = 0, low = 0, high = 0;
};
inline constexpr std::array<const char*, 4> rouge_names{"rouge1", "rouge2", "rougeL", "rougeLsum"};
std::array<MeanRouge, 4> mean_rouge(std::span<const Rouge> texts);

// The first sentence: up to a full stop, question or exclamation mark before a blank, or the first
// line. What a summary has to beat ("lead-1").
std::string first_sentence(std::string_view text);

}  // namespace gpuhpc
