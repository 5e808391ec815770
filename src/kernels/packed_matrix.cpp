#include "gpuhpc/kernels/packed_matrix.hpp"

namespace gpuhpc::kernels {
namespace {

template <typename T, typename Round>
PackedMatrix<T> pack_any(MatrixView weight, Round round) {
  PackedMatrix<T> packed;
  packed.rows = round_up(weight.columns, kPanel);
  packed.columns = round_up(weight.rows, kPanel);
  packed.values.resize(packed.rows * packed.columns);
  for (std::int64_t n = 0; n < weight.rows; ++n)
    for (std::int64_t k = 0; k < weight.columns; ++k)
      packed.values.data()[packed_index(packed, k, n)] = round(weight.data[n * weight.columns + k]);
  return packed;
}

}  // namespace

PackedMatrix<float> pack_f32(MatrixView weight) {
  return pack_any<float>(weight, [](float value) { return value; });
}

PackedMatrix<BFloat16> pack_bf16(MatrixView weight) { return pack_any<BFloat16>(weight, to_bf16); }

}  // namespace gpuhpc::kernels
