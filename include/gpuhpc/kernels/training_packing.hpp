#pragma once
// Operands of bf16 products that change with every training step, put into PackedMatrix order
// (packed_matrix.hpp) at memory speed.
#include <cstdint>

#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc::kernels {

// A block of a packed matrix of `packed_rows` rows (K, a multiple of 32): from row first_k (a
// multiple of 32) and panel first_panel on.
template <typename S>
struct PackCall {
  const S* values = nullptr;  // (rows, columns), contiguous
  std::int64_t rows = 0, columns = 0;
  BFloat16* packed = nullptr;
  std::int64_t packed_rows = 0, first_k = 0, first_panel = 0;
};

struct PackingKernels {
  // values (N, K) as model files have weights: element (k, n) = values[n][k]. N and K multiples
  // of 32.
  void (*weight)(const PackCall<float>&) = nullptr;
  // values (K, N): element (k, n) = values[k][n]. N a multiple of 32; rows beyond K up to the next
  // multiple of 32 become zeros.
  void (*weight_rows)(const PackCall<float>&) = nullptr;
  void (*rows)(const PackCall<BFloat16>&) = nullptr;
  // (rows, columns), columns a multiple of 32, turned over in blocks of 32 x 32 one behind the
  // other: element (r, c) goes to result[(c/32 * row_blocks + r/32) * 1024 + c%32 * 32 + r%32].
  // Rows up to the next multiple of 32 become zeros. The result is an input of AccumulateCall:
  // (columns, rows) with input_stride 32, k_step 1024, row_step 1024 row_blocks.
  void (*transpose)(const BFloat16* values, std::int64_t rows, std::int64_t columns,
                    BFloat16* result, std::int64_t row_blocks) = nullptr;
};
PackingKernels packing_kernels(Isa isa);

}  // namespace gpuhpc::kernels
