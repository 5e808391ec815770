#include "gpuhpc/kernels/packed_matrix.hpp"

#include <algorithm>
#include <cmath>

namespace gpuhpc::kernels {
namespace {

// `store(packed, index, weight)` writes one weight.
template <typename T, typename Store>
PackedMatrix<T> pack_any(MatrixView weight, Store store) {
  PackedMatrix<T> packed;
  packed.rows = round_up(weight.columns, kPanel);
  packed.columns = round_up(weight.rows, kPanel);
  packed.values.resize(packed.panel_rows() * packed.columns);
  for (std::int64_t n = 0; n < weight.rows; ++n)
    for (std::int64_t k = 0; k < weight.columns; ++k)
      store(packed.values.data(), packed_index(packed, k, n), weight.data[n * weight.columns + k]);
  return packed;
}

}  // namespace

PackedMatrix<float> pack_f32(MatrixView weight) {
  return pack_any<float>(weight,
                         [](float* values, std::int64_t i, float value) { values[i] = value; });
}

PackedMatrix<BFloat16> pack_bf16(MatrixView weight) {
  return pack_any<BFloat16>(
      weight, [](BFloat16* values, std::int64_t i, float value) { values[i] = to_bf16(value); });
}

PackedMatrix<SplitBFloat16> pack_split(MatrixView weight) {
  return pack_any<SplitBFloat16>(weight, [](SplitBFloat16* values, std::int64_t i, float value) {
    const Bf16Halves both = split(value);
    halves(values)[i] = both.high;
    halves(values)[i + kLowOfBlock] = both.low;
  });
}

PackedMatrix<Int8> pack_int8(MatrixView weight) {
  PackedMatrix<Int8> packed;
  packed.rows = round_up(weight.columns, kPanel);
  packed.columns = round_up(weight.rows, kPanel);
  packed.values.resize(packed.panel_rows() * packed.columns);
  packed.scales.resize(packed.columns);
  packed.sums.resize(packed.panel_rows() / kInt8Depth * packed.columns);
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    const std::span<const float> column = weight.row(n);
    float largest = 0;
    for (const float value : column)
      if (std::abs(value) > largest || std::isnan(value)) largest = std::abs(value);
    const float scale = largest / kHighestInt8;
    packed.scales.data()[n] = scale;
    if (scale == 0 || !std::isfinite(scale)) continue;  // products are zero or not finite
    for (std::int64_t k = 0; k < weight.columns; ++k) {
      const auto value =
          static_cast<Int8>(std::clamp(std::nearbyint(column[static_cast<std::size_t>(k)] / scale),
                                       -kHighestInt8, kHighestInt8));
      packed.values.data()[packed_index(packed, k, n)] = value;
      packed.sums.data()[k / kInt8Depth * packed.columns + n] += value;
    }
  }
  return packed;
}

}  // namespace gpuhpc::kernels
