#include "gpuhpc/labels/refinement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpuhpc {
namespace {

bool share_an_entry(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() && y != b.end()) {
    if (*x == *y) return true;
    if (*x < *y)
      ++x;
    else
      ++y;
  }
  return false;
}

}  // namespace

void add_class_documents(const Taxonomy& taxonomy, MatrixView documents,
                         std::span<const std::vector<ClassId>> cores,
                         std::span<const std::vector<std::int32_t>> document_terms,
                         std::span<const std::vector<std::int32_t>> class_terms, FixedSums& sums,
                         std::span<std::int64_t> counts) {
  for (std::size_t d = 0; d < cores.size(); ++d)
    for (const ClassId c : taxonomy.with_ancestors(cores[d])) {
      if (!share_an_entry(document_terms[d], class_terms[static_cast<std::size_t>(c)])) continue;
      sums.add_row(c, documents.row(static_cast<std::int64_t>(d)));
      ++counts[static_cast<std::size_t>(c)];
    }
}

Matrix mean_class_vectors(const FixedSums& sums, std::span<const std::int64_t> counts,
                          MatrixView fallback) {
  Matrix vectors = sums.matrix();
  for (std::int64_t c = 0; c < vectors.rows; ++c) {
    if (counts[static_cast<std::size_t>(c)] == 0)
      std::copy_n(fallback.row(c).data(), vectors.columns, vectors.row(c).data());
    else
      normalise(vectors.row(c));
  }
  return vectors;
}

GapCut cut_at_gap(std::span<const float> similarity, std::int64_t first, std::int64_t minimum) {
  std::vector<ClassId> order(similarity.size());
  std::iota(order.begin(), order.end(), 0);
  const auto looked_at = std::min<std::ptrdiff_t>(std::ssize(order), std::max(first, minimum) + 1);
  std::partial_sort(order.begin(), order.begin() + looked_at, order.end(),
                    [&](ClassId a, ClassId b) {
                      const float x = similarity[static_cast<std::size_t>(a)],
                                  y = similarity[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  const auto at = [&](std::ptrdiff_t i) {
    return similarity[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  };
  GapCut cut;
  std::ptrdiff_t length = std::min<std::ptrdiff_t>(std::ssize(order), 1);
  float widest = -1;
  for (std::ptrdiff_t i = 1; i <= first && i < std::ssize(order); ++i)
    if (at(i - 1) - at(i) > widest) {
      widest = at(i - 1) - at(i);
      length = i;
    }
  cut.confidence = std::max(widest, 0.f);
  length = std::min<std::ptrdiff_t>(std::ssize(order), std::max<std::ptrdiff_t>(length, minimum));
  cut.classes.assign(order.begin(), order.begin() + length);
  return cut;
}

std::vector<bool> keep_confident(std::span<const float> confidences, double share) {
  const auto count = static_cast<std::int64_t>(confidences.size());
  const auto kept = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count) - 1e-9)), 0, count);
  std::vector<std::int64_t> order(confidences.size());
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + kept, order.end(),
                   [&](std::int64_t a, std::int64_t b) {
                     const float x = confidences[static_cast<std::size_t>(a)],
                                 y = confidences[static_cast<std::size_t>(b)];
                     return x != y ? x > y : a < b;
                   });
  std::vector<bool> keep(confidences.size());
  for (std::int64_t i = 0; i < kept; ++i)
    keep[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
  return keep;
}

TopDocuments::TopDocuments(std::int64_t classes, std::int64_t n)
    : classes_(classes),
      n_(n),
      scores_(static_cast<std::size_t>(classes * n), -std::numeric_limits<float>::infinity()),
      documents_(static_cast<std::size_t>(classes * n), -1) {}

void TopDocuments::offer(std::int64_t c, float score, std::int64_t document) {
  float* const scores = scores_.data() + c * n_;
  std::int64_t* const documents = documents_.data() + c * n_;
  const auto beats = [&](std::int64_t i) {
    return documents[i] < 0 || score > scores[i] || (score == scores[i] && document < documents[i]);
  };
  if (n_ == 0 || document < 0 || !beats(n_ - 1)) return;
  std::int64_t at = n_ - 1;
  for (; at > 0 && beats(at - 1); --at) {
    scores[at] = scores[at - 1];
    documents[at] = documents[at - 1];
  }
  scores[at] = score;
  documents[at] = document;
}

void TopDocuments::add(MatrixView scores, std::int64_t first_document) {
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    const auto row = scores.row(i);
    for (std::int64_t c = 0; c < classes_; ++c)
      offer(c, row[static_cast<std::size_t>(c)], first_document + i);
  }
}

void TopDocuments::merge(std::span<const float> scores, std::span<const std::int64_t> documents) {
  const std::int64_t stride = classes_ * n_;
  for (std::int64_t i = 0; i < std::ssize(scores); ++i)
    offer(i % stride / n_, scores[static_cast<std::size_t>(i)],
          documents[static_cast<std::size_t>(i)]);
}

std::vector<std::int64_t> TopDocuments::of(ClassId c) const {
  std::vector<std::int64_t> used;
  for (std::int64_t i = c * n_; i < (c + 1) * n_ && documents_[static_cast<std::size_t>(i)] >= 0;
       ++i)
    used.push_back(documents_[static_cast<std::size_t>(i)]);
  return used;
}

void add_top_documents(const TopDocuments& top, MatrixView documents, std::int64_t first_document,
                       FixedSums& sums, std::span<std::int64_t> counts) {
  for (std::int64_t c = 0; c < sums.rows(); ++c)
    for (const std::int64_t document : top.of(static_cast<ClassId>(c))) {
      const std::int64_t row = document - first_document;
      if (row < 0 || row >= documents.rows) continue;
      sums.add_row(c, documents.row(row));
      ++counts[static_cast<std::size_t>(c)];
    }
}

}  // namespace gpuhpc
