#pragma once
// How well a search finds what belongs to its queries; every figure is the mean over the queries.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpuhpc {

// Names and values, in this order: mrr_at_10 (1 / place of the first hit among ten), ndcg_at_10
// (binary gain, log2 discount, Jarvelin and Kekalainen 2002), recall_at_1, recall_at_10,
// map_at_100 (mean precision at the hits among a hundred, over min(100, relevant)).
using Figures = std::vector<std::pair<std::string, double>>;

// found[q]: documents for query q, best first, as many as were asked for (-1: no more);
// relevant[q]: those that belong to it, at least one.
Figures retrieval_figures(std::span<const std::vector<std::int32_t>> found,
                          std::span<const std::vector<std::int32_t>> relevant);

}  // namespace gpuhpc
