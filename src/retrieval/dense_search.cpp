// Exact dense search. Products of rounded rows, which are cheap, say which indexed rows may be
// among the nearest of a query; those alone get the exact product, and nothing but exact products
// is compared and kept. So the answer is the same whatever rounds the rows and however the work is
// cut.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/kernels/packed_matrix.hpp"
#include "gpuhpc/kernels/training_kernels.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "row_blocks.hpp"

namespace gpuhpc {
namespace {

using kernels::BFloat16;
using kernels::kPanel;

// A product: rows and bytes of packed queries; with the scores they stay in the second-level cache.
// The kernels take 6, 12 or 32 rows at once.
constexpr std::int64_t tile_rows = 96, group_bytes = 1 << 18;
constexpr std::int64_t indexed_block = 48 * tile_rows;          // rows that are rounded at once
constexpr std::int64_t queries_at_once = 16 * neighbour_block;  // that these rows serve
// Up to here rounding and packing would take longer than all exact products.
constexpr std::int64_t few_queries = 4;

// In double a product of two floats is exact: only the order of the sum could differ, and it is
// fixed here, with a few sums at a time for the processor's sake.
float exact_product(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums{};
  const std::size_t whole = a.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l)
      sums[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (std::size_t i = whole; i < a.size(); ++i)
    sums[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(((sums[0] + sums[4]) + (sums[2] + sums[6])) +
                            ((sums[1] + sums[5]) + (sums[3] + sums[7])));
}

// Upper bounds of a row x that is rounded to x'. |q.x - q'.x'| <= |q - q'| |x| + |q'| |x - x'|, and
// the fp32 sum of q'.x' is wrong by a share of |q'| |x'|.
struct Size {
  double length = 0;  // of x and of x'; NaN: x has a NaN, and no neighbours
  double error = 0;   // of x - x'; an indexed row: and the share of fp32 sums
};

// Below: squares are lost to underflow. Above: fp32 sums might overflow.
constexpr double shortest = 0x1p-54, longest = 0x1p60;

// to_bf16() of what is no NaN, without a branch.
inline std::uint32_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U;
}

template <typename T>
Size measure(const float* row, std::int64_t width) {
  constexpr std::int64_t lanes = 16;
  std::array<float, lanes> squares{}, errors{};
  for (std::int64_t i = 0; i < width; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) {
      const float value = row[i + static_cast<std::int64_t>(l)];
      squares[l] += value * value;
      if constexpr (std::is_same_v<T, BFloat16>) {
        const float rest = value - std::bit_cast<float>(bf16_bits(value));
        errors[l] += rest * rest;
      }
    }
  const auto norm = [&](const std::array<float, lanes>& sums) {
    double sum = 0;
    for (const float one : sums) sum += static_cast<double>(one);
    return std::sqrt(sum) * (1 + static_cast<double>(width) * 0x1p-24) + shortest;
  };
  const double length = norm(squares), error = norm(errors);
  if (std::isnan(length)) return {length, length};
  if (length > longest)
    return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  return {length + error, error};
}

// What fp32 sums of `width` products, in any order, and rounding the exact product to float can
// change, as a share of the lengths; twice that.
double share_of_sums(std::int64_t width) { return static_cast<double>(width + 16) * 0x1p-23; }

// The least approximate product of a row that may enter a list whose worst weight is `worst`.
float least_product(float worst, const Size& query, const Size& indexed) {
  const double least =
      static_cast<double>(worst) - query.error * indexed.length - query.length * indexed.error;
  return static_cast<float>(least - std::abs(least) * 0x1p-22);
}

// The row with zeros behind it; zeros alone where products of it could not be trusted.
template <typename T>
Size stage(std::span<const float> row, std::int64_t width, float* staged) {
  std::fill(std::copy(row.begin(), row.end(), staged), staged + width, 0.0F);
  const Size size = measure<T>(staged, width);
  if (!std::isfinite(size.length)) std::fill_n(staged, width, 0.0F);
  return size;
}

struct Search {
  MatrixView queries, indexed;
  QuerySet set;
  float above;

  // The list of query `query`, in row `row` of `out`.
  TopK list(Neighbours& out, std::int64_t row) const {
    const auto first = static_cast<std::size_t>(row * out.k),
               count = static_cast<std::size_t>(out.k);
    return {std::span(out.indices).subspan(first, count),
            std::span(out.weights).subspan(first, count), above};
  }
  void offer(std::int64_t query, std::int64_t index, TopK& best) const {
    if (set == QuerySet::same && query == index) return;
    best.offer(static_cast<std::int32_t>(index),
               exact_product(queries.row(query), indexed.row(index)));
  }
};

// Every exact product.
void search_plainly(const Search& search, Range rows, Neighbours& out) {
  at::parallel_for(0, rows.size(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = 0; i < search.indexed.rows; ++i)
      for (std::int64_t q = first; q < last; ++q) {
        TopK best = search.list(out, q);
        search.offer(rows.first + q, i, best);
      }
  });
}

template <typename T>
class ScreenedSearch {
 public:
  ScreenedSearch(const Search& search, kernels::Isa isa)
      : search_(search),
        width_(kernels::round_up(std::max<std::int64_t>(search.queries.columns, 1), 32)),
        table_(kernels::encoder_kernels<T>(isa)),
        packing_(kernels::packing_kernels<T>(isa)) {}

  void run(Range rows, Neighbours& out) {
    for (std::int64_t q = rows.first; q < rows.last; q += queries_at_once) {
      pack_queries({q, std::min(rows.last, q + queries_at_once)});
      first_row_ = q - rows.first;
      for (std::int64_t i = 0; i < search_.indexed.rows; i += indexed_block) {
        round_rows({i, std::min(search_.indexed.rows, i + indexed_block)});
        search_block(out);
      }
    }
  }

 private:
  void pack_queries(Range rows) {
    packed_queries_ = rows;
    packed_.rows = width_;
    packed_.columns = kernels::round_up(rows.size(), kPanel);
    packed_.values.resize(packed_.rows * packed_.columns);
    query_sizes_.resize(static_cast<std::size_t>(rows.size()));
    at::parallel_for(0, packed_.panels(), 4, [&](std::int64_t first, std::int64_t last) {
      kernels::AlignedBuffer<float> staged(kPanel * width_);
      for (std::int64_t panel = first; panel < last; ++panel) {
        const Range in_panel = block_items(panel, rows.size(), kPanel);
        std::fill_n(staged.data(), kPanel * width_, 0.0F);
        for (std::int64_t i = in_panel.first; i < in_panel.last; ++i)
          query_sizes_[static_cast<std::size_t>(i)] =
              stage<T>(search_.queries.row(rows.first + i), width_,
                       staged.data() + (i - in_panel.first) * width_);
        packing_.weight({staged.data(), kPanel, width_, packed_.values.data(), width_, 0, panel});
      }
    });
  }

  void round_rows(Range rows) {
    rounded_rows_ = rows;
    rounded_.resize(indexed_block * width_);
    row_sizes_.resize(static_cast<std::size_t>(rows.size()));
    tile_sizes_.resize(static_cast<std::size_t>(block_count(rows.size(), tile_rows)));
    at::parallel_for(0, std::ssize(tile_sizes_), 1, [&](std::int64_t first, std::int64_t last) {
      kernels::AlignedBuffer<float> staged(width_);
      for (std::int64_t tile = first; tile < last; ++tile) {
        Size largest;
        const Range in_tile = block_items(tile, rows.size(), tile_rows);
        for (std::int64_t i = in_tile.first; i < in_tile.last; ++i) {
          Size size = round_row(search_.indexed.row(rows.first + i), rounded_.data() + i * width_,
                                staged.data());
          size.error += share_of_sums(width_) * size.length;
          largest.length = std::max(largest.length, size.length);  // passes over NaN
          largest.error = std::max(largest.error, size.error);
          row_sizes_[static_cast<std::size_t>(i)] = size;
        }
        tile_sizes_[static_cast<std::size_t>(tile)] = largest;
      }
    });
  }

  Size round_row(std::span<const float> row, T* rounded, float* staged) const {
    if constexpr (std::is_same_v<T, float>) {
      return stage<T>(row, width_, rounded);
    } else {
      const Size size = stage<T>(row, width_, staged);
      for (std::int64_t i = 0; i < width_; ++i)
        rounded[i] = {static_cast<std::uint16_t>(bf16_bits(staged[i]) >> 16)};
      return size;
    }
  }

  // All packed queries against the rounded rows; a query's rows come in ascending order.
  void search_block(Neighbours& out) const {
    const std::int64_t longest_group = std::max<std::int64_t>(
        1, group_bytes / (width_ * kPanel * static_cast<std::int64_t>(sizeof(T))));
    at::parallel_for(0, packed_.panels(), 1, [&](std::int64_t first, std::int64_t last) {
      const kernels::KernelScope<T> scope(table_);
      const std::int64_t group = std::min(longest_group, last - first);
      kernels::AlignedBuffer<float> products(tile_rows * group * kPanel);
      std::vector<float> least(static_cast<std::size_t>(group * kPanel));  // that may enter
      for (std::int64_t p = first; p < last; p += group)
        for (std::int64_t tile = 0; tile < std::ssize(tile_sizes_); ++tile)
          search_tile(tile, {p, std::min(last, p + group)}, products.data(), least, out);
    });
  }

  void search_tile(std::int64_t tile, Range panels, float* products, std::vector<float>& least,
                   Neighbours& out) const {
    const Range rows = block_items(tile, rounded_rows_.size(), tile_rows);
    const std::int64_t first_query = panels.first * kPanel, queries = panels.size() * kPanel;
    kernels::AccumulateCall<T> call;
    call.input = rounded_.data() + rows.first * width_;
    call.input_stride = width_;
    call.rows = rows.size();
    call.weight = &packed_;
    call.first_panel = panels.first;
    call.panels = panels.size();
    call.output = products;
    call.output_stride = queries;
    call.overwrite = true;
    table_.accumulate(call);
    const Size& largest = tile_sizes_[static_cast<std::size_t>(tile)];
    std::ranges::fill(least, std::numeric_limits<float>::infinity());
    for (std::int64_t q = 0; q < std::min(queries, packed_queries_.size() - first_query); ++q)
      least[static_cast<std::size_t>(q)] =
          least_product(search_.list(out, first_row_ + first_query + q).worst(),
                        query_sizes_[static_cast<std::size_t>(first_query + q)], largest);
    for (std::int64_t row = rows.first; row < rows.last; ++row, products += queries)
      for (std::int64_t q = 0; q < queries; q += kPanel)
        offer_panel(row, first_query + q, products + q, least.data() + q, largest, out);
  }

  // Offers a rounded row to 32 packed queries, given their products and the least that count.
  void offer_panel(std::int64_t row, std::int64_t first_query, const float* products, float* least,
                   const Size& largest, Neighbours& out) const {
    int any = 0;
    for (std::int64_t j = 0; j < kPanel; ++j) any |= products[j] >= least[j] ? 1 : 0;
    if (any == 0) return;
    for (std::int64_t j = 0; j < kPanel; ++j) {
      if (!(products[j] >= least[j])) continue;
      const std::int64_t query = first_query + j;
      const Size& size = query_sizes_[static_cast<std::size_t>(query)];
      TopK best = search_.list(out, first_row_ + query);
      if (!(products[j] >=
            least_product(best.worst(), size, row_sizes_[static_cast<std::size_t>(row)])))
        continue;
      search_.offer(packed_queries_.first + query, rounded_rows_.first + row, best);
      least[j] = least_product(best.worst(), size, largest);
    }
  }

  Search search_;
  std::int64_t width_;  // columns, padded
  kernels::EncoderKernels<T> table_;
  kernels::PackingKernels<T> packing_;
  Range packed_queries_, rounded_rows_;
  std::int64_t first_row_ = 0;  // of the answer: of the first packed query
  kernels::PackedMatrix<T> packed_;
  kernels::AlignedBuffer<T> rounded_;
  std::vector<Size> query_sizes_, row_sizes_, tile_sizes_;
};

}  // namespace

Neighbours dense_neighbours(MatrixView queries, MatrixView indexed, Range rows, QuerySet set,
                            const NeighbourOptions& options, const Screening& screening) {
  check_blocks(rows, queries.rows, neighbour_block);
  if (queries.columns != indexed.columns) {
    throw internal_error("queries have {} columns, the indexed rows {}", queries.columns,
                         indexed.columns);
  }
  Neighbours out = no_neighbours(rows.size(), options.k);
  if (options.k == 0) return out;
  const Search search{queries, indexed, set, options.above};
  if (rows.size() <= few_queries)
    search_plainly(search, rows, out);
  else if (screening.bf16)
    ScreenedSearch<BFloat16>(search, screening.isa).run(rows, out);
  else
    ScreenedSearch<float>(search, screening.isa).run(rows, out);
  return out;
}

}  // namespace gpuhpc
