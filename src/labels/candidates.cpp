#include "gpuhpc/labels/candidates.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

double step_score(float similarity, PathScore score) {
  return score == PathScore::exponential ? std::exp(static_cast<double>(similarity))
                                         : static_cast<double>(similarity);
}

// The best `count` of the children by similarity (ties: lower id).
std::vector<ClassId> best_children(std::span<const ClassId> children,
                                   std::span<const float> similarity, std::int64_t count) {
  std::vector<ClassId> order(children.begin(), children.end());
  const auto kept = std::min<std::ptrdiff_t>(std::ssize(order), count);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](ClassId a, ClassId b) {
    const float x = similarity[static_cast<std::size_t>(a)],
                y = similarity[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<std::size_t>(kept));
  return order;
}

}  // namespace

void best_text_similarity(MatrixView documents, MatrixView texts, std::span<const ClassId> owner,
                          MutableMatrixView similarity) {
  Matrix products(documents.rows, texts.rows);
  multiply_transposed(documents, texts, products.view());
  std::fill_n(similarity.data, similarity.rows * similarity.columns, -1.f);
  for (std::int64_t i = 0; i < documents.rows; ++i) {
    const auto from = products.row(i);
    const auto to = similarity.row(i);
    for (std::size_t t = 0; t < owner.size(); ++t) {
      float& best = to[static_cast<std::size_t>(owner[t])];
      best = std::max(best, from[t]);
    }
  }
}

CandidateOptions teleclass_candidates() { return {3, 2, PathScore::exponential}; }
CandidateOptions taxoclass_candidates() { return {2, 1, PathScore::probability}; }

CandidateSearch::CandidateSearch(const Taxonomy& taxonomy, const CandidateOptions& options)
    : taxonomy_(taxonomy), options_(options), kept_(static_cast<std::size_t>(taxonomy.size())) {}

std::vector<ClassId> CandidateSearch::needed() const {
  if (depth_ == 0) return taxonomy_.roots();
  std::vector<ClassId> classes;
  for (const Candidate& node : level_)
    classes.insert(classes.end(), taxonomy_.children(node.id).begin(),
                   taxonomy_.children(node.id).end());
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

void CandidateSearch::advance(std::span<const float> similarity) {
  std::vector<Candidate> pool;
  const auto propose = [&](std::span<const ClassId> children, double above) {
    for (const ClassId c : best_children(children, similarity, depth_ + options_.extra_children)) {
      // A class kept at an earlier level keeps that score; within a level the best parent counts.
      if (kept_[static_cast<std::size_t>(c)]) continue;
      const double score =
          above * step_score(similarity[static_cast<std::size_t>(c)], options_.score);
      const auto same =
          std::find_if(pool.begin(), pool.end(), [&](const Candidate& p) { return p.id == c; });
      if (same == pool.end())
        pool.push_back({c, score, depth_ + 1});
      else
        same->score = std::max(same->score, score);
    }
  };
  if (depth_ == 0) propose(taxonomy_.roots(), 1);
  for (const Candidate& node : level_) propose(taxonomy_.children(node.id), node.score);
  std::sort(pool.begin(), pool.end(), [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  const auto cap =
      static_cast<std::size_t>((depth_ + options_.pool_base) * (depth_ + options_.pool_base));
  if (depth_ > 0 && pool.size() > cap) pool.resize(cap);
  for (const Candidate& node : pool) kept_[static_cast<std::size_t>(node.id)] = true;
  all_.insert(all_.end(), pool.begin(), pool.end());
  level_ = std::move(pool);
  ++depth_;
}

std::vector<Candidate> find_candidates(const Taxonomy& taxonomy, std::span<const float> similarity,
                                       const CandidateOptions& options) {
  CandidateSearch search(taxonomy, options);
  while (!search.needed().empty()) search.advance(similarity);
  return search.candidates();
}

}  // namespace gpuhpc
