// The reference twins of the packing kernels: plain loops.
#include "gpuhpc/kernels/packed_matrix.hpp"
#include "gpuhpc/kernels/training_kernels.hpp"
#include "levels.hpp"
#include "plain.hpp"

namespace gpuhpc::kernels {
namespace {

template <typename S>
float& element(const PackCall<S, float>& call, std::int64_t k, std::int64_t n) {
  const std::int64_t panel = call.first_panel + n / kPanel;
  return call.packed[(panel * call.packed_rows + call.first_k + k) * kPanel + n % kPanel];
}
template <typename S>
BFloat16& element(const PackCall<S, BFloat16>& call, std::int64_t k, std::int64_t n) {
  const std::int64_t row = call.first_k + k, panel = call.first_panel + n / kPanel,
                     column = n % kPanel;
  return call.packed[(panel * call.packed_rows + row / 32 * 32) * kPanel + column / 16 * 512 +
                     row % 32 / 2 * 32 + column % 16 * 2 + row % 2];
}

template <typename T>
void plain_weight(const PackCall<float, T>& call) {
  for (std::int64_t n = 0; n < call.rows; ++n)
    for (std::int64_t k = 0; k < call.columns; ++k)
      element(call, k, n) = from_float<T>(call.values[n * call.columns + k]);
}

template <typename S, typename T>
void plain_rows(const PackCall<S, T>& call) {
  for (std::int64_t k = 0; k < round_up(call.rows, 32); ++k)
    for (std::int64_t n = 0; n < call.columns; ++n)
      element(call, k, n) =
          k < call.rows ? from_float<T>(to_float(call.values[k * call.columns + n])) : T{};
}

template <typename T>
void plain_transpose(const T* values, std::int64_t rows, std::int64_t columns, T* result,
                     const Turned& layout) {
  for (std::int64_t r = 0; r < round_up(rows, 32); ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      result[layout.place(r, c)] = r < rows ? values[r * columns + c] : T{};
}

template <typename T>
PackingKernels<T> plain() {
  return {plain_weight<T>, plain_rows<float, T>, plain_rows<T, T>, plain_transpose<T>};
}

}  // namespace

void set_generic(PackingKernels<float>& kernels) { kernels = plain<float>(); }
void set_generic(PackingKernels<BFloat16>& kernels) { kernels = plain<BFloat16>(); }

template <>
PackingKernels<float> packing_kernels<float>(Isa isa) {
  return best_table<PackingKernels<float>>(isa);
}
template <>
PackingKernels<BFloat16> packing_kernels<BFloat16>(Isa isa) {
  return best_table<PackingKernels<BFloat16>>(isa);
}

}  // namespace gpuhpc::kernels
