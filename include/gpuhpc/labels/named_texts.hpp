#pragma once
// Texts that hold the whole name of one leaf and of no other. Such a text is mostly of that class,
// and scores that read no words need to find out: they measure scores where no gold is.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

// The only path whose evidence (K), of LexicalEvidence, is whole; none where no one or several are.
std::optional<std::int64_t> named_path(std::span<const float> evidence);

// Of a large corpus they are looked for among so many documents, evenly spread.
inline constexpr std::int64_t documents_for_named_texts = 16'384;

struct NamedTexts {
  std::int64_t looked_at = 0;  // texts, with those that name no class
  std::int64_t paths = 0;
  std::vector<float> scores;        // (n,K) of score_paths
  std::vector<std::int64_t> named;  // (n) path
  std::int64_t size() const { return std::ssize(named); }
  MatrixView rows() const { return {scores.data(), size(), paths}; }
};

// Mean over the texts of 1 / the rank of the named path by s - csls * r; an equal score takes no
// place. hubness r (K). Its fall warns that an adaptation harms. At least one text.
double mean_reciprocal_rank(const NamedTexts& texts, std::span<const float> hubness, double csls);

// The csls in [0, 1] under which softmax(temperature * (s - csls * r)) gives the named paths the
// largest likelihood. At least one text.
double likeliest_csls(const NamedTexts& texts, std::span<const float> hubness, double temperature);

// csls moved towards likeliest_csls by the share fit * n / (n + 100): few texts say little.
double fitted_csls(const NamedTexts& texts, std::span<const float> hubness, double temperature,
                   double csls, double fit);

}  // namespace gpuhpc
