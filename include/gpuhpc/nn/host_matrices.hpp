#pragma once
// Plain matrices of the rooms that know no tensors, as tensors and back. Copies, but for host_view.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <span>

#include "gpuhpc/base/matrix.hpp"

namespace gpuhpc {

at::Tensor host_view(MatrixView matrix);  // of the caller's memory; never written to
at::Tensor to_tensor(MatrixView matrix, at::Device device = at::kCPU);  // fp32
at::Tensor to_tensor(std::span<const float> values, at::Device device = at::kCPU);
Matrix to_matrix(
    const at::Tensor& tensor);  // one or two dimensions, any device; a vector becomes one row

}  // namespace gpuhpc
