#include "gpuhpc/nn/host_matrices.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace gpuhpc {
namespace {

at::Tensor view_of(const float* data, at::IntArrayRef shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

at::Tensor host_view(MatrixView matrix) {
  return view_of(matrix.data, {matrix.rows, matrix.columns});
}

at::Tensor to_tensor(MatrixView matrix, at::Device device) {
  return host_view(matrix).to(device, at::kFloat, false, /*copy=*/true);
}

at::Tensor to_tensor(std::span<const float> values, at::Device device) {
  return view_of(values.data(), {std::ssize(values)}).to(device, at::kFloat, false, /*copy=*/true);
}

Matrix to_matrix(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  Matrix matrix(host.dim() == 2 ? host.size(0) : 1, host.size(-1));
  std::copy_n(host.const_data_ptr<float>(), matrix.values.size(), matrix.values.begin());
  return matrix;
}

}  // namespace gpuhpc
