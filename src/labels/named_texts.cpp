#include "gpuhpc/labels/named_texts.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/labels/scoring.hpp"

namespace gpuhpc {
namespace {

// d/d csls of the mean log-likelihood, over the temperature: the hubness that the softmax expects
// less that of the named path. It falls as csls grows: the likelihood is concave.
double slope(const NamedTexts& texts, std::span<const float> hubness, double temperature,
             double csls) {
  Matrix p(texts.size(), texts.paths);
  p.values = texts.scores;
  to_logits(p.view(), hubness, temperature, csls);
  softmax_rows(p.view());
  double sum = 0;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::size_t k = 0; k < hubness.size(); ++k)
      sum += static_cast<double>(p.row(i)[k]) * static_cast<double>(hubness[k]);
    const auto named = static_cast<std::size_t>(texts.named[static_cast<std::size_t>(i)]);
    sum -= static_cast<double>(hubness[named]);
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> named_path(std::span<const float> evidence) {
  const auto whole = [](float share) { return share > .999F; };
  if (std::ranges::count_if(evidence, whole) != 1) return {};
  return std::ranges::find_if(evidence, whole) - evidence.begin();
}

double mean_reciprocal_rank(const NamedTexts& texts, std::span<const float> hubness, double csls) {
  double sum = 0;
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    const auto scores = texts.rows().row(i);
    const auto less_hubness = [&](std::size_t k) {
      return static_cast<double>(scores[k]) - csls * static_cast<double>(hubness[k]);
    };
    const double named =
        less_hubness(static_cast<std::size_t>(texts.named[static_cast<std::size_t>(i)]));
    std::int64_t rank = 1;
    for (std::size_t k = 0; k < scores.size(); ++k) rank += less_hubness(k) > named;
    sum += 1. / static_cast<double>(rank);
  }
  return sum / static_cast<double>(texts.size());
}

double likeliest_csls(const NamedTexts& texts, std::span<const float> hubness, double temperature) {
  double low = 0, high = 1;
  if (slope(texts, hubness, temperature, low) <= 0) return low;
  if (slope(texts, hubness, temperature, high) >= 0) return high;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (slope(texts, hubness, temperature, middle) > 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

double fitted_csls(const NamedTexts& texts, std::span<const float> hubness, double temperature,
                   double csls, double fit) {
  constexpr double half_trusted = 100;  // texts; the estimates of so many lie .03 to .18 apart
  const auto count = static_cast<double>(texts.size());
  const double share = fit * count / (count + half_trusted);
  return csls + share * (likeliest_csls(texts, hubness, temperature) - csls);
}

}  // namespace gpuhpc
