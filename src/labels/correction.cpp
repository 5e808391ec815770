#include "gpuhpc/labels/correction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

constexpr float width = 3;      // of the kernel
constexpr float noise = .3F;    // of a label that is still to be given, beside a variance of 1
constexpr double least = 1e-3;  // share of a class's probability that is never taken off
constexpr double lifted_from = .25;

// A class never becomes certain: of the documents that a sum cut at 1 made so, one in eight was
// wrong (debtags-topical, 100 labels).
double moved(double before, double move) {
  if (move <= 0) return before + move;
  const double room = 1 - before;
  return room > 0 ? before + room * std::tanh(move / room) : before;
}

// The nearest p that sum to no more than `sum` and of which none is below its floor. Bounds alone
// would let small moves in both directions add up to classes that nothing speaks for.
void bound(std::span<double> p, std::span<const double> floors, double sum) {
  const auto total = [&](double off) {
    double all = 0;
    for (std::size_t c = 0; c < p.size(); ++c) all += std::max(p[c] - off, floors[c]);
    return all;
  };
  double low = 0, high = total(0) <= sum ? 0 : 1;
  for (int step = 0; step < 40 && high > 0; ++step) {
    const double middle = (low + high) / 2;
    (total(middle) > sum ? low : high) = middle;
  }
  for (std::size_t c = 0; c < p.size(); ++c) p[c] = std::max(p[c] - high, floors[c]);
}

// Log odds of p above 1/4 grow by 4 lift (p - 1/4) (1 - p): small ones and those near 1 stay.
double lifted(double p, double lift) {
  if (p <= lifted_from) return p;
  return 1 / (1 + (1 - p) / p * std::exp(-4 * lift * (p - lifted_from) * (1 - p)));
}

}  // namespace

float gain(float p) { return 2.25F * std::pow(p * (1 - p) * (1 - p) * (1 - p), .25F); }

Matrix text_and_posterior(MatrixView centred, MatrixView posterior) {
  Matrix both(centred.rows, centred.columns + posterior.columns);
  const float half = std::sqrt(.5F);
  for (std::int64_t i = 0; i < both.rows; ++i) {
    const auto rest = std::ranges::transform(centred.row(i), both.row(i).begin(),
                                             [&](float x) { return half * x; });
    std::ranges::transform(posterior.row(i), rest.out,
                           [&](float p) { return half * std::sqrt(std::max(p, 0.F)); });
  }
  return both;
}

void similarities(MatrixView documents, MatrixView others, MutableMatrixView similarities) {
  multiply_transposed(documents, others, similarities);
  for (std::int64_t i = 0; i < similarities.rows * similarities.columns; ++i)
    similarities.data[i] = std::exp(width * (similarities.data[i] - 1));
}

void move_probabilities(const Taxonomy& taxonomy, MatrixView moves,
                        MutableMatrixView probabilities) {
  std::vector<ClassId> deepest_first(static_cast<std::size_t>(taxonomy.size()));
  std::iota(deepest_first.begin(), deepest_first.end(), 0);
  std::ranges::stable_sort(deepest_first, std::ranges::greater(),
                           [&](ClassId c) { return taxonomy.depth(c); });
  std::vector<double> p(deepest_first.size()), floors(p.size());
  for (std::int64_t i = 0; i < probabilities.rows; ++i) {
    const auto row = probabilities.row(i);
    const auto move = moves.row(i);
    double sum = 0;
    for (std::size_t c = 0; c < p.size(); ++c) {
      const auto before = static_cast<double>(row[c]), by = static_cast<double>(move[c]);
      sum += before + by;
      p[c] = moved(before, by);
      floors[c] = least * before;
    }
    bound(p, floors, std::max(sum, 1.));  // each document has a class
    for (const ClassId c : deepest_first)
      if (const auto parents = taxonomy.parents(c); parents.size() == 1) {
        double& parent = p[static_cast<std::size_t>(parents[0])];
        parent = std::max(parent, p[static_cast<std::size_t>(c)]);
      }
    for (std::size_t c = 0; c < p.size(); ++c) row[c] = static_cast<float>(p[c]);
  }
}

void LabelCorrection::apply(const Taxonomy& taxonomy, MatrixView centred, MatrixView posterior,
                            MutableMatrixView scores) const {
  Matrix near(centred.rows, documents.rows), moves(centred.rows, weights.rows);
  similarities(text_and_posterior(centred, posterior).view(), documents.view(), near.view());
  multiply_transposed(std::as_const(near).view(), weights.view(), moves.view());
  to_probabilities(scores, expected_leaves, softmax_leaves);
  for (std::int64_t i = 0; i < scores.rows; ++i)
    std::ranges::transform(moves.row(i), std::as_const(scores).row(i), moves.row(i).begin(),
                           [](float move, float p) { return move * gain(p); });
  move_probabilities(taxonomy, std::as_const(moves).view(), scores);
  for (std::int64_t i = 0; i < scores.rows; ++i)
    for (float& p : scores.row(i)) p = static_cast<float>(lifted(static_cast<double>(p), lift));
}

std::vector<double> shares_of_nearest(MatrixView documents, MatrixView others) {
  Matrix products(documents.rows, others.rows);
  multiply_transposed(documents, others, products.view());
  std::vector<double> shares(static_cast<std::size_t>(others.rows));
  for (std::int64_t i = 0; i < products.rows; ++i) {
    const auto row = std::as_const(products).row(i);
    shares[static_cast<std::size_t>(std::ranges::max_element(row) - row.begin())] +=
        1 / static_cast<double>(documents.rows);
  }
  return shares;
}

double leaves_for(MatrixView marginals, MatrixView truth, std::span<const double> weights) {
  const auto sum_of = [&](MatrixView values, auto&& each) {
    double sum = 0;
    for (std::int64_t i = 0; i < values.rows; ++i)
      for (const float value : values.row(i))
        sum += weights[static_cast<std::size_t>(i)] * each(static_cast<double>(value));
    return sum;
  };
  const double wanted = sum_of(truth, [](double value) { return value; });
  double low = .1, high = 100;
  for (int step = 0; step < 50; ++step) {
    const double middle = (low + high) / 2;
    const double found = sum_of(marginals, [&](double m) { return membership(m, middle); });
    (found < wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<std::int64_t> select_documents(MatrixView compared, std::span<const double> uncertainty,
                                           std::int64_t known, std::int64_t count) {
  const std::int64_t n = compared.rows;
  Matrix covariance(n, n);
  similarities(compared, compared, covariance.view());
  std::vector<float> column(static_cast<std::size_t>(n));
  // What document j tells about all of them, once its label is known.
  const auto learn = [&](std::int64_t j) {
    std::ranges::copy(covariance.row(j), column.begin());
    const float scale = 1 / (column[static_cast<std::size_t>(j)] + noise);
    for (std::int64_t i = 0; i < n; ++i) {
      const float share = scale * column[static_cast<std::size_t>(i)];
      const auto row = covariance.row(i);
      for (std::size_t k = 0; k < row.size(); ++k) row[k] -= share * column[k];
    }
  };
  for (std::int64_t j = 0; j < known; ++j) learn(j);
  std::vector<std::int64_t> chosen;
  std::vector<bool> taken(static_cast<std::size_t>(n));
  while (std::ssize(chosen) < std::min(count, n - known)) {
    double most = -1;
    std::int64_t best = known;
    for (std::int64_t j = known; j < n; ++j) {
      if (taken[static_cast<std::size_t>(j)]) continue;
      const auto row = std::as_const(covariance).row(j);
      double fall = 0;
      for (std::size_t i = 0; i < row.size(); ++i)
        fall += uncertainty[i] * static_cast<double>(row[i] * row[i]);
      fall /= static_cast<double>(row[static_cast<std::size_t>(j)] + noise);
      if (fall > most) most = fall, best = j;
    }
    taken[static_cast<std::size_t>(best)] = true;
    chosen.push_back(best);
    learn(best);
  }
  return chosen;
}

}  // namespace gpuhpc
