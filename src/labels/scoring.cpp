#include "gpuhpc/labels/scoring.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/finite.hpp"
#include "lanes.hpp"

namespace gpuhpc {
namespace {

// documents whose float sums are taken before they become fixed point
constexpr std::int64_t sum_rows = 512;
constexpr std::int64_t sum_columns = 16;

// sums (P, 16) of P rows of weights (P, rows; stride `rows`) times packed columns (rows, 16).
template <int P>
void weigh_columns(const float* weights, const float* columns, std::int64_t rows, float* sums) {
  Lanes lanes[P][4] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    Lanes values[4];
    for (int v = 0; v < 4; ++v) values[v] = load(columns + i * sum_columns + v * 4);
    for (int p = 0; p < P; ++p) {
      const float weight = weights[p * rows + i];
      for (int v = 0; v < 4; ++v) lanes[p][v] += weight * values[v];
    }
  }
  __builtin_memcpy(sums, lanes, sizeof lanes);
}

void add_scaled(const float* sums, std::int64_t row, std::int64_t first_column, std::int64_t count,
                FixedSums& total) {
  for (std::int64_t j = 0; j < count; ++j)
    total.add(row, first_column + j, static_cast<double>(sums[j]));
}

void add_soft_sums_piece(MatrixView posterior, MatrixView documents, FixedSums& sums) {
  const std::int64_t rows = documents.rows, paths = posterior.columns, width = documents.columns;
  std::vector<float> weights(static_cast<std::size_t>(paths * rows));  // posterior transposed
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < paths; ++k)
      weights[static_cast<std::size_t>(k * rows + i)] = posterior.data[i * paths + k];
  std::vector<float> packed(static_cast<std::size_t>(rows * sum_columns));
  float pair[2 * sum_columns];
  for (std::int64_t j = 0; j < width; j += sum_columns) {
    const std::int64_t count = std::min(sum_columns, width - j);
    if (count < sum_columns) std::fill(packed.begin(), packed.end(), 0.f);
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(documents.data + i * width + j, count, packed.data() + i * sum_columns);
    std::int64_t k = 0;
    for (; k + 2 <= paths; k += 2) {
      weigh_columns<2>(weights.data() + k * rows, packed.data(), rows, pair);
      add_scaled(pair, k, j, count, sums);
      add_scaled(pair + sum_columns, k + 1, j, count, sums);
    }
    if (k < paths) {
      weigh_columns<1>(weights.data() + k * rows, packed.data(), rows, pair);
      add_scaled(pair, k, j, count, sums);
    }
  }
}

}  // namespace

Matrix path_vectors(const Taxonomy& taxonomy, MatrixView class_vectors) {
  const auto paths = static_cast<std::int64_t>(taxonomy.paths().size());
  Matrix rows(paths, class_vectors.columns);
  for (std::int64_t k = 0; k < paths; ++k) {
    const auto leaf = class_vectors.row(taxonomy.path_leaf(k));
    std::copy(leaf.begin(), leaf.end(), rows.row(k).begin());
  }
  return rows;
}

void class_probabilities(MatrixView documents, MatrixView vectors, std::span<const float> bias,
                         MutableMatrixView probabilities, Link link) {
  multiply_transposed(documents, vectors, probabilities);
  for (std::int64_t i = 0; i < probabilities.rows; ++i) {
    const auto row = probabilities.row(i);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const float logit = row[c] + (bias.empty() ? 0.F : bias[c]);
      row[c] = 1 / (1 + std::exp(link == Link::sigmoid_exp ? -std::exp(logit) : -logit));
    }
  }
}

std::vector<float> bias_for_shares(MatrixView logits, std::span<const float> shares) {
  std::vector<float> biases;
  for (std::int64_t c = 0; c < logits.columns; ++c) {
    double low = -100, high = 100;
    for (int step = 0; step < 40; ++step) {
      const double bias = (low + high) / 2;
      double sum = 0;
      for (std::int64_t i = 0; i < logits.rows; ++i)
        sum +=
            1 /
            (1 + std::exp(-bias - static_cast<double>(logits.row(i)[static_cast<std::size_t>(c)])));
      (sum < shares[static_cast<std::size_t>(c)] * static_cast<double>(logits.rows) ? low : high) =
          bias;
    }
    biases.push_back(static_cast<float>((low + high) / 2));
  }
  return biases;
}

void score_paths(MatrixView documents, MatrixView paths, MutableMatrixView scores) {
  multiply_transposed(documents, paths, scores);
}

TopScores::TopScores(std::int64_t paths, std::int64_t n)
    : paths_(paths),
      n_(n),
      values_(static_cast<std::size_t>(paths * n), -std::numeric_limits<float>::infinity()) {}

void TopScores::offer(std::int64_t path, float score) {
  float* const best = values_.data() + path * n_;
  if (!(score > best[n_ - 1])) return;
  std::int64_t at = n_ - 1;
  for (; at > 0 && best[at - 1] < score; --at) best[at] = best[at - 1];
  best[at] = score;
}

void TopScores::add(MatrixView scores) {
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    const auto row = scores.row(i);
    for (std::int64_t k = 0; k < paths_; ++k) offer(k, row[static_cast<std::size_t>(k)]);
  }
}

void TopScores::merge(std::span<const float> others) {
  const std::size_t stride = values_.size();
  for (std::size_t first = 0; first + stride <= others.size() && stride > 0; first += stride)
    for (std::int64_t k = 0; k < paths_; ++k)
      for (std::int64_t i = 0; i < n_; ++i)
        offer(k, others[first + static_cast<std::size_t>(k * n_ + i)]);
}

std::vector<float> TopScores::means() const {
  std::vector<float> means(static_cast<std::size_t>(paths_));
  for (std::int64_t k = 0; k < paths_; ++k) {
    double sum = 0;
    std::int64_t count = 0;
    for (; count < n_ && std::isfinite(values_[static_cast<std::size_t>(k * n_ + count)]); ++count)
      sum += values_[static_cast<std::size_t>(k * n_ + count)];
    if (count > 0)
      means[static_cast<std::size_t>(k)] = static_cast<float>(sum / static_cast<double>(count));
  }
  return means;
}

void to_logits(MutableMatrixView scores, std::span<const float> hubness, double temperature,
               double csls) {
  const auto scale = static_cast<float>(temperature);
  std::vector<float> shift(static_cast<std::size_t>(scores.columns));
  for (std::size_t k = 0; k < hubness.size(); ++k) shift[k] = static_cast<float>(csls * hubness[k]);
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    const auto row = scores.row(i);
    for (std::size_t k = 0; k < shift.size(); ++k) row[k] = scale * (row[k] - shift[k]);
  }
}

void softmax_rows(MutableMatrixView logits) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const auto row = logits.row(i);
    if (row.empty()) continue;
    const float largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (float& value : row) {
      value = std::exp(value - largest);
      sum += value;
    }
    const auto share = static_cast<float>(1 / sum);
    for (float& value : row) value *= share;
  }
}

void add_soft_sums(MatrixView posterior, MatrixView documents, FixedSums& sums) {
  for (std::int64_t first = 0; first < documents.rows; first += sum_rows) {
    const std::int64_t count = std::min(sum_rows, documents.rows - first);
    add_soft_sums_piece(posterior.slice(first, count), documents.slice(first, count), sums);
  }
}

Matrix refined_paths(MatrixView paths, const FixedSums& sums, double name_votes) {
  Matrix refined(paths.rows, paths.columns);
  std::vector<double> vector(static_cast<std::size_t>(paths.columns));
  for (std::int64_t k = 0; k < paths.rows; ++k) {
    const auto path = paths.row(k);
    double square = 0;
    for (std::size_t j = 0; j < vector.size(); ++j) {
      vector[j] = name_votes * path[j] + sums.value(k, static_cast<std::int64_t>(j));
      square += vector[j] * vector[j];
    }
    const double length = square > 0 ? std::sqrt(square) : 1;
    const auto row = refined.row(k);
    for (std::size_t j = 0; j < vector.size(); ++j) row[j] = static_cast<float>(vector[j] / length);
  }
  return refined;
}

void path_marginals(const Taxonomy& taxonomy, MatrixView posterior, MutableMatrixView marginals) {
  // Every class adds its paths in the same order, so a parent on a tree never comes out below its
  // child.
  std::vector<double> sums(static_cast<std::size_t>(taxonomy.size()));
  const auto& paths = taxonomy.paths();
  for (std::int64_t i = 0; i < posterior.rows; ++i) {
    std::fill(sums.begin(), sums.end(), 0.);
    const auto row = posterior.row(i);
    for (std::size_t k = 0; k < paths.size(); ++k)
      for (const ClassId c : paths[k]) sums[static_cast<std::size_t>(c)] += row[k];
    const auto marginal = marginals.row(i);
    for (std::size_t c = 0; c < sums.size(); ++c)
      marginal[c] = static_cast<float>(sums[c] > 1 ? 1. : sums[c]);  // a NaN stays one
  }
}

void check_scores(MatrixView scores, const Taxonomy& taxonomy,
                  const std::function<std::string(std::int64_t)>& document) {
  if (const auto bad = find_not_finite(scores))
    throw not_finite_error(
        "{}: its score of class `{}` is not finite; are the model's weights damaged?",
        document(bad->row), taxonomy.label(static_cast<ClassId>(bad->column)));
}

void sharpen_targets(MatrixView posterior, std::span<const float> path_sums,
                     MutableMatrixView targets) {
  for (std::int64_t i = 0; i < posterior.rows; ++i) {
    const auto row = posterior.row(i);
    const auto target = targets.row(i);
    double sum = 0;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double sharp =
          path_sums[k] > 0 ? static_cast<double>(row[k]) * row[k] / path_sums[k] : 0.;
      target[k] = static_cast<float>(sharp);
      sum += sharp;
    }
    if (sum > 0)
      for (float& value : target) value = static_cast<float>(value / sum);
  }
}

void smooth_rows(MatrixView own, const SparseMatrix& neighbours, MatrixView all, double keep,
                 MutableMatrixView smoothed) {
  const auto mine = static_cast<float>(keep), theirs = static_cast<float>(1 - keep);
  std::vector<float> sum(static_cast<std::size_t>(own.columns));
  for (std::int64_t i = 0; i < own.rows; ++i) {
    const auto first = neighbours.offsets[static_cast<std::size_t>(i)],
               last = neighbours.offsets[static_cast<std::size_t>(i) + 1];
    const auto row = own.row(i);
    const auto out = smoothed.row(i);
    if (first == last) {
      std::copy(row.begin(), row.end(), out.begin());
      continue;
    }
    std::fill(sum.begin(), sum.end(), 0.f);
    for (auto entry = first; entry < last; ++entry) {
      const float weight = neighbours.values[static_cast<std::size_t>(entry)];
      const float* const values =
          all.data + neighbours.columns[static_cast<std::size_t>(entry)] * all.columns;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += weight * values[k];
    }
    for (std::size_t k = 0; k < sum.size(); ++k) out[k] = mine * row[k] + theirs * sum[k];
  }
}

void average_into(MutableMatrixView first, MatrixView second) {
  const std::int64_t count = first.rows * first.columns;
  for (std::int64_t i = 0; i < count; ++i) first.data[i] = .5f * (first.data[i] + second.data[i]);
}

void add_probability_sums(MatrixView probabilities, FixedSums& sums) {
  for (std::int64_t i = 0; i < probabilities.rows; ++i) {
    const auto row = probabilities.row(i);
    for (std::int64_t c = 0; c < probabilities.columns; ++c) {
      const double p = row[static_cast<std::size_t>(c)];
      sums.add(0, c, p);
      sums.add(1, c, 1 - p);
    }
  }
}

void self_training_targets(MatrixView probabilities, const FixedSums& sums,
                           MutableMatrixView targets) {
  for (std::int64_t c = 0; c < probabilities.columns; ++c) {
    const double f = sums.value(0, c), g = sums.value(1, c);
    for (std::int64_t i = 0; i < probabilities.rows; ++i) {
      const double p = probabilities.row(i)[static_cast<std::size_t>(c)];
      // A class that nobody (or everybody) has keeps it so: its other sum is 0, and so is that
      // side's p.
      const double yes = f > 0 ? p * p / f : 0, no = g > 0 ? (1 - p) * (1 - p) / g : 0;
      targets.row(i)[static_cast<std::size_t>(c)] = static_cast<float>(yes / (yes + no));
    }
  }
}

void PathModel::posterior(MatrixView centred, std::span<const std::string> texts,
                          const LexicalEvidence& lexical, MutableMatrixView posterior) const {
  score_paths(centred, vectors.view(), posterior);
  to_logits(posterior, hubness, temperature, csls);
  if (lexical_weight > 0) lexical.add(texts, lexical_weight, posterior);
  softmax_rows(posterior);
}

void PathModel::posterior(MatrixView centred, MutableMatrixView posterior) const {
  score_paths(centred, vectors.view(), posterior);
  to_logits(posterior, hubness, temperature, csls);
  softmax_rows(posterior);
}

PathModel leaf_odds(const Taxonomy& taxonomy, MatrixView vectors, std::span<const float> bias) {
  PathModel model{path_vectors(taxonomy, vectors), {}, 1, 1, 0};
  for (std::int64_t k = 0; k < model.vectors.rows; ++k)
    model.hubness.push_back(-bias[static_cast<std::size_t>(taxonomy.path_leaf(k))]);
  return model;
}

double scaling_temperature(MatrixView logits, MatrixView targets) {
  // The cross-entropy is convex in 1 / T: its slope, the mean logit under the softmax less that
  // under the targets, rises.
  const auto slope = [&](double sharpness) {
    double sum = 0;
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto row = logits.row(i), wanted = targets.row(i);
      const double largest = *std::ranges::max_element(row);
      double mass = 0, mean = 0, target = 0;
      for (std::size_t k = 0; k < row.size(); ++k) {
        const double logit = row[k] - largest, weight = std::exp(sharpness * logit);
        mass += weight;
        mean += weight * logit;
        target += wanted[k] * logit;
      }
      sum += mean / mass - target;
    }
    return sum;
  };
  double low = 1. / 16, high = 16;
  for (int step = 0; step < 40; ++step) {
    const double middle = std::sqrt(low * high);
    (slope(middle) < 0 ? low : high) = middle;
  }
  return 1 / std::sqrt(low * high);
}

}  // namespace gpuhpc
