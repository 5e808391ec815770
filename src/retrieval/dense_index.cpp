#include "gpuhpc/retrieval/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpuhpc/base/random.hpp"
#include "row_blocks.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t sample_a_list = 48;  // rows a cluster that the centres are learnt from
constexpr int rounds = 8;                   // of k-means; more changes recall by less than .01

// Row of the largest entry of each row; ties: the lowest.
std::vector<std::int32_t> largest(const at::Tensor& scores) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(scores.size(0)));
  const float* data = scores.data_ptr<float>();
  const std::int64_t width = scores.size(1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float* row = data + static_cast<std::int64_t>(i) * width;
    out[i] = static_cast<std::int32_t>(std::max_element(row, row + width) - row);
  }
  return out;
}

std::vector<std::int32_t> nearest_centres(MatrixView rows, Range wanted, MatrixView centres,
                                          std::int64_t block) {
  std::vector<std::int32_t> all;
  all.reserve(static_cast<std::size_t>(wanted.size()));
  const at::Tensor right = copy_rows(centres, {0, centres.rows});
  for (std::int64_t i = wanted.first; i < wanted.last; i += block) {
    const auto part =
        largest(at::mm(copy_rows(rows, {i, std::min(wanted.last, i + block)}), right.t()));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Unit mean of the rows of each cluster; a cluster that lost all its rows keeps its centre.
void move_centres(MatrixView rows, std::span<const std::int32_t> clusters, Matrix& centres) {
  std::vector<double> sums(centres.values.size());
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double* sum = sums.data() + clusters[static_cast<std::size_t>(i)] * centres.columns;
    for (const float value : rows.row(i)) *sum++ += static_cast<double>(value);
  }
  for (std::int64_t c = 0; c < centres.rows; ++c) {
    const std::span<const double> sum(sums.data() + c * centres.columns,
                                      static_cast<std::size_t>(centres.columns));
    const double norm = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
    if (norm > 0)
      std::transform(sum.begin(), sum.end(), centres.row(c).begin(),
                     [&](double x) { return static_cast<float>(x / norm); });
  }
}

std::int64_t default_lists(std::int64_t rows) {
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(rows)));
  return std::max<std::int64_t>(16, (root + 15) / 16 * 16);
}

// The first `count` of a seeded shuffle of 0..total-1, ascending order not kept: also the seeds of
// the centres.
std::vector<std::int32_t> sample_rows(std::int64_t total, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(total));
  std::iota(rows.begin(), rows.end(), 0);
  RandomStream random(seed, 0x6c69737473);
  for (std::int64_t i = 0; i < count; ++i) {
    std::swap(
        rows[static_cast<std::size_t>(i)],
        rows[static_cast<std::size_t>(i) + random.below(static_cast<std::uint64_t>(total - i))]);
  }
  rows.resize(static_cast<std::size_t>(count));
  return rows;
}

}  // namespace

DenseIndex::DenseIndex(MatrixView indexed, const NeighbourOptions& options)
    : indexed_(indexed), options_(options) {
  const std::int64_t wanted = options.lists > 0 ? options.lists : default_lists(indexed.rows);
  const std::int64_t lists = std::min(indexed.rows, wanted);
  const auto chosen =
      sample_rows(indexed.rows, std::min(indexed.rows, lists * sample_a_list), options.seed);
  const at::Tensor gathered = gather_rows(indexed, chosen);
  const MatrixView sample{gathered.data_ptr<float>(), std::ssize(chosen), indexed.columns};
  centres_ = Matrix(lists, indexed.columns);
  std::copy_n(sample.data, centres_.values.size(), centres_.values.begin());
  for (int round = 0; round < rounds && lists > 0; ++round) {
    move_centres(sample, nearest_centres(sample, {0, sample.rows}, centres_.view(), query_block),
                 centres_);
  }
}

std::vector<std::int32_t> DenseIndex::assign(Range rows) const {
  check_blocks(rows, indexed_.rows, query_block);
  return nearest_centres(indexed_, rows, centres_.view(), query_block);
}

void DenseIndex::set_lists(std::span<const std::int32_t> clusters) {
  if (std::ssize(clusters) != indexed_.rows)
    throw internal_error("{} clusters for {} indexed rows", clusters.size(), indexed_.rows);
  offsets_.assign(static_cast<std::size_t>(lists()) + 1, 0);
  for (const std::int32_t cluster : clusters) ++offsets_[static_cast<std::size_t>(cluster) + 1];
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  std::vector<std::int64_t> next(offsets_.begin(), offsets_.end() - 1);
  members_.resize(clusters.size());
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    members_[static_cast<std::size_t>(next[static_cast<std::size_t>(clusters[i])]++)] =
        static_cast<std::int32_t>(i);
  }
}

namespace {

// For each list, the queries of the block (row numbers) that probe it.
std::vector<std::vector<std::int32_t>> queries_of_lists(const at::Tensor& scores,
                                                        std::int64_t probes,
                                                        std::int64_t first_query) {
  const std::int64_t lists = scores.size(1);
  std::vector<std::vector<std::int32_t>> queries(static_cast<std::size_t>(lists));
  std::vector<std::int32_t> order(static_cast<std::size_t>(lists));
  const auto kept = static_cast<std::ptrdiff_t>(std::min(probes, lists));
  for (std::int64_t q = 0; q < scores.size(0); ++q) {
    const float* row = scores.data_ptr<float>() + q * lists;
    std::iota(order.begin(), order.end(), 0);
    std::nth_element(
        order.begin(), order.begin() + (kept - 1), order.end(),
        [&](std::int32_t a, std::int32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    for (std::ptrdiff_t i = 0; i < kept; ++i) {
      queries[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])].push_back(
          static_cast<std::int32_t>(first_query + q));
    }
  }
  return queries;
}

}  // namespace

Neighbours DenseIndex::search(MatrixView queries, Range rows, QuerySet set) const {
  check_blocks(rows, queries.rows, query_block);
  if (std::ssize(members_) != indexed_.rows)
    throw internal_error("set_lists() has not been called");
  Neighbours out = no_neighbours(rows.size(), options_.k);
  if (lists() == 0) return out;
  const at::Tensor centres = copy_rows(centres_.view(), {0, lists()});
  const auto k = static_cast<std::size_t>(options_.k);
  for (std::int64_t first = rows.first; first < rows.last; first += query_block) {
    const Range block{first, std::min(rows.last, first + query_block)};
    const auto wanted =
        queries_of_lists(at::mm(copy_rows(queries, block), centres.t()), options_.probes, first);
    for (std::size_t list = 0; list < wanted.size(); ++list) {
      const std::span members(members_.data() + offsets_[list],
                              static_cast<std::size_t>(offsets_[list + 1] - offsets_[list]));
      if (members.empty() || wanted[list].empty()) continue;
      const at::Tensor scores =
          at::mm(gather_rows(queries, wanted[list]), gather_rows(indexed_, members).t());
      for (std::int64_t q = 0; q < scores.size(0); ++q) {
        const std::int32_t query = wanted[list][static_cast<std::size_t>(q)];
        const auto at_row = static_cast<std::size_t>(query - rows.first) * k;
        TopK best(std::span(out.indices).subspan(at_row, k),
                  std::span(out.weights).subspan(at_row, k));
        float* row = scores.data_ptr<float>() + q * scores.size(1);
        if (set == QuerySet::same) {
          const auto self = std::lower_bound(members.begin(), members.end(), query);
          if (self != members.end() && *self == query)
            row[self - members.begin()] = 0;  // never enters
        }
        best.offer_all(std::span<const float>(row, members.size()),
                       [&](std::size_t j) { return members[j]; });
      }
    }
  }
  return out;
}

}  // namespace gpuhpc
