#pragma once
// Blocks of rows as tensors with memory of their own: always aligned alike, so products have the
// same bits wherever the rows came from (heap, file map). Private to the room.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <cstring>
#include <span>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"

namespace gpuhpc {

inline at::Tensor copy_rows(MatrixView matrix, Range rows) {
  at::Tensor block = at::empty({rows.size(), matrix.columns}, at::kFloat);
  if (rows.size() == 0) return block;  // an empty matrix has no memory to copy from
  std::memcpy(block.data_ptr<float>(), matrix.data + rows.first * matrix.columns,
              static_cast<std::size_t>(rows.size() * matrix.columns) * sizeof(float));
  return block;
}

inline at::Tensor gather_rows(MatrixView matrix, std::span<const std::int32_t> rows) {
  at::Tensor block = at::empty({std::ssize(rows), matrix.columns}, at::kFloat);
  float* out = block.data_ptr<float>();
  for (const std::int32_t row : rows) {
    std::memcpy(out, matrix.data + row * matrix.columns,
                static_cast<std::size_t>(matrix.columns) * sizeof(float));
    out += matrix.columns;
  }
  return block;
}

// `rows` must start at a multiple of `block` and end at one or at the end: else blocks would depend
// on the caller.
inline void check_blocks(Range rows, std::int64_t total, std::int64_t block) {
  const bool empty = rows.first == rows.last;
  const bool aligned = rows.first % block == 0 && (rows.last % block == 0 || rows.last == total);
  if (rows.first < 0 || rows.last > total || rows.first > rows.last || (!empty && !aligned)) {
    throw internal_error("query rows [{}, {}) of {} are not whole blocks of {}", rows.first,
                         rows.last, total, block);
  }
}

inline Neighbours no_neighbours(std::int64_t rows, std::int64_t k) {
  const auto size = static_cast<std::size_t>(rows * k);
  return {k, std::vector<std::int32_t>(size, -1), std::vector<float>(size, 0.0F)};
}

}  // namespace gpuhpc
