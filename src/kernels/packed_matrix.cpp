#include "gpuhpc/kernels/packed_matrix.hpp"

namespace gpuhpc::kernels {
namespace {

// `store(packed, index, weight)` writes one weight.
template <typename T, typename Store>
PackedMatrix<T> pack_any(MatrixView weight, Store store) {
  PackedMatrix<T> packed;
  packed.rows = round_up(weight.columns, kPanel);
  packed.columns = round_up(weight.rows, kPanel);
  packed.values.resize(packed.rows * packed.columns);
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

}  // namespace gpuhpc::kernels
