#include "gpuhpc/kernels/training_kernels.hpp"

#include "gpuhpc/kernels/packed_matrix.hpp"
#include "levels.hpp"

namespace gpuhpc::kernels {
namespace {

BFloat16 rounded(float value) { return to_bf16(value); }
BFloat16 rounded(BFloat16 value) { return value; }

template <typename S>
BFloat16& element(const PackCall<S>& call, std::int64_t k, std::int64_t n) {
  const std::int64_t row = call.first_k + k, panel = call.first_panel + n / kPanel,
                     column = n % kPanel;
  return call.packed[(panel * call.packed_rows + row / 32 * 32) * kPanel + column / 16 * 512 +
                     row % 32 / 2 * 32 + column % 16 * 2 + row % 2];
}

void plain_weight(const PackCall<float>& call) {
  for (std::int64_t n = 0; n < call.rows; ++n)
    for (std::int64_t k = 0; k < call.columns; ++k)
      element(call, k, n) = rounded(call.values[n * call.columns + k]);
}

template <typename S>
void plain_rows(const PackCall<S>& call) {
  for (std::int64_t k = 0; k < round_up(call.rows, 32); ++k)
    for (std::int64_t n = 0; n < call.columns; ++n)
      element(call, k, n) = k < call.rows ? rounded(call.values[k * call.columns + n]) : BFloat16{};
}

void plain_transpose(const BFloat16* values, std::int64_t rows, std::int64_t columns,
                     BFloat16* result, std::int64_t row_blocks) {
  for (std::int64_t r = 0; r < round_up(rows, 32); ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      result[(c / 32 * row_blocks + r / 32) * 1024 + c % 32 * 32 + r % 32] =
          r < rows ? values[r * columns + c] : BFloat16{};
}

}  // namespace

PackingKernels packing_kernels(Isa isa) {
  require(isa);
  PackingKernels kernels{plain_weight, plain_rows<float>, plain_rows<BFloat16>, plain_transpose};
  if (isa >= Isa::avx512_bf16) set_avx512_bf16(kernels);
  return kernels;
}

}  // namespace gpuhpc::kernels
