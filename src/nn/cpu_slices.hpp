#pragma once
// Weights in slices that stay in the second-level cache while rows pass by; private to room nn.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpuhpc/kernels/encoder_kernels.hpp"

namespace gpuhpc {

constexpr std::int64_t kWeightSlice = 320 * 1024;  // bytes of one slice of weights
// rows that go up and down through a slice of the feed-forward layer
constexpr std::int64_t kRowBlock = 96;

// Panels of a matrix that are worked on together.
struct Slices {
  std::int64_t panels = 0, each = 0;
  Slices() = default;
  // As even as `most` panels a slice allow.
  Slices(std::int64_t all, std::int64_t most) : panels(all) {
    const std::int64_t slices = (all + most - 1) / most;
    each = (all + slices - 1) / slices;
  }
  std::int64_t count() const { return (panels + each - 1) / each; }
  std::int64_t first(std::int64_t slice) const { return slice * each; }
  std::int64_t size(std::int64_t slice) const { return std::min(each, panels - slice * each); }
};

template <typename W>
std::int64_t slice_panels(std::int64_t depth) {
  return std::max<std::int64_t>(
      1, kWeightSlice / (depth * kernels::kPanel * static_cast<std::int64_t>(sizeof(W))));
}

template <typename W>
kernels::Prefetch whole(const kernels::PackedMatrix<W>& matrix) {
  return {reinterpret_cast<const std::byte*>(matrix.values.data()),
          matrix.values.size() * static_cast<std::int64_t>(sizeof(W))};
}
template <typename W>
kernels::Prefetch panels_of(const kernels::PackedMatrix<W>& matrix, const Slices& slices,
                            std::int64_t slice) {
  return {
      reinterpret_cast<const std::byte*>(matrix.panel(slices.first(slice))),
      slices.size(slice) * kernels::kPanel * matrix.rows * static_cast<std::int64_t>(sizeof(W))};
}
// What falls to rows [row, row + count) of `rows` when the fetching is spread over them.
inline kernels::Prefetch share(kernels::Prefetch all, std::int64_t row, std::int64_t count,
                               std::int64_t rows) {
  const std::int64_t first = all.bytes / 64 * row / rows * 64,
                     last = all.bytes / 64 * (row + count) / rows * 64;
  return {all.from + first, last - first};
}

// The weight (H,F) of what leads back from the wide dimension, a matrix for each slice of it.
template <typename W>
std::vector<kernels::PackedMatrix<W>> pack_slices(MatrixView weight, const Slices& wide) {
  std::vector<kernels::PackedMatrix<W>> packed;
  for (std::int64_t slice = 0; slice < wide.count(); ++slice) {
    const std::int64_t first = wide.first(slice) * kernels::kPanel,
                       last = std::min(weight.columns, first + wide.size(slice) * kernels::kPanel);
    Matrix part(weight.rows, last - first);
    for (std::int64_t r = 0; r < weight.rows; ++r)
      std::copy_n(weight.row(r).data() + first, last - first, part.row(r).data());
    packed.push_back(kernels::pack<W>(part.view()));
  }
  return packed;
}

}  // namespace gpuhpc
