#pragma once
// Operands of bf16 products that change with every training step, put into PackedMatrix order (packed_matrix.hpp) at memory speed.
#include <cstdint>

#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc::kernels {

// A block of a packed matrix of `packed_rows` rows (K, a multiple of 32): from row first_k (a multiple of 32) and panel first_panel on.
template <typename S>
struct PackCall {
  const S* values = nullptr;  // (rows, columns), contiguous
  std::int64_t rows = 0, columns = 0;
  BFloat16* packed = nullptr;
  std::int64_t packed_rows = 0, first_k = 0, first_panel = 0;
};

struct PackingKernels {
  // values (N, K) as model files have weights: element (k, n) = values[n][k]. N and K multiples of 32.
  void (*weight)(const PackCall<float>&) = nullptr;
  // values (K, N): element (k, n) = values[k][n]. N a multiple of 32; rows beyond K up to the next multiple of 32 become zeros.
  void (*weight_rows)(const PackCall<float>&) = nullptr;
  void (*rows)(const PackCall<BFloat16>&) = nullptr;
  // (rows, columns) -> (columns, result_stride), both multiples of 32. Rows up to the next multiple of 32 become zeros.
  void (*transpose)(const BFloat16* values, std::int64_t rows, std::int64_t columns, std::int64_t stride, BFloat16* result,
                    std::int64_t result_stride) = nullptr;
};
PackingKernels packing_kernels(Isa isa);

}  // namespace gpuhpc::kernels
