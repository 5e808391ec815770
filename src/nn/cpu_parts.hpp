#pragma once
// What the CPU encoders of every family share; private to room nn.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cpu_forward.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"

namespace gpuhpc {

inline MatrixView weights(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous())
    throw internal_error("the CPU encoder needs contiguous CPU weights");
  return {tensor.const_data_ptr<float>(), tensor.size(0), tensor.dim() > 1 ? tensor.size(1) : 1};
}

inline std::vector<float> copied(MatrixView view) {
  return {view.data, view.data + view.rows * view.columns};
}

// A vector, with zeros behind it up to a multiple of 32.
inline std::vector<float> padded(const at::Tensor& tensor) {
  std::vector<float> all = copied(weights(tensor));
  all.resize(static_cast<std::size_t>(kernels::round_up(std::ssize(all), kernels::kPanel)));
  return all;
}

// Adds the time since the last mark to one part of the workspace, when it asks for times.
class Stopwatch {
 public:
  explicit Stopwatch(CpuWorkspace& workspace) : workspace_(workspace), last_(now()) {}
  void mark(double CpuWorkspace::Times::*part) {
    if (!workspace_.timed) return;
    const auto time = now();
    workspace_.times.*part += std::chrono::duration<double>(time - last_).count();
    last_ = time;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point now() const { return workspace_.timed ? Clock::now() : Clock::time_point(); }
  CpuWorkspace& workspace_;
  Clock::time_point last_;
};

// An odd number of 32 columns: 32 rows that a kernel reads side by side then fall on as many sets
// of the first-level cache. At 1024 columns they would fall on one or two.
constexpr std::int64_t spread(std::int64_t columns) {
  return columns / 32 % 2 == 0 ? columns + 32 : columns;
}

// From row to row of what layer_norm() leaves for linear().
template <typename W>
std::int64_t input_stride(std::int64_t columns) {
  return std::is_same_v<W, kernels::Int8> ? kernels::int8_stride(columns) : spread(columns);
}

// Attention's results and the residual stream of the documents' first tokens alone, at the front;
// returns their number. Rows are `stride` apart.
template <typename T>
std::int64_t keep_first_tokens(const PackedIds& documents, std::int64_t first, std::int64_t last,
                               std::int64_t stride, T* context, float* residual) {
  for (std::int64_t b = first; b < last; ++b) {
    const std::int64_t from = documents.offsets[static_cast<std::size_t>(b)] -
                              documents.offsets[static_cast<std::size_t>(first)],
                       to = b - first;
    if (from == to) continue;
    std::copy_n(context + from * stride, stride, context + to * stride);
    std::copy_n(residual + from * stride, stride, residual + to * stride);
  }
  return last - first;
}

}  // namespace gpuhpc
