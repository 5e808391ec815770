#include "gpuhpc/nn/heads.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstring>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc {
namespace {

// A view of host memory as a tensor; never written to.
at::Tensor host_view(const float* data, at::IntArrayRef shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::TensorOptions().dtype(at::kFloat));
}

at::Tensor tensor_of(MatrixView matrix, at::Device device) {
  return host_view(matrix.data, {matrix.rows, matrix.columns}).to(device, at::kFloat, false, /*copy=*/true);
}

at::Tensor tensor_of(std::span<const float> values, at::Device device) {
  return host_view(values.data(), {std::ssize(values)}).to(device, at::kFloat, false, /*copy=*/true);
}

Matrix matrix_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  Matrix result(host.size(0), host.size(1));
  std::memcpy(result.values.data(), host.const_data_ptr<float>(), result.values.size() * sizeof(float));
  return result;
}

}  // namespace

PathClassifier::PathClassifier(MatrixView class_vectors, std::span<const float> mean, std::span<const float> hub_similarity,
                               const PathClassifierOptions& options, at::Device device)
    : options_(options) {
  if (class_vectors.columns != std::ssize(mean) || class_vectors.rows != std::ssize(hub_similarity))
    throw internal_error("path classifier: {} x {} class vectors, a mean of {}, {} hub similarities", class_vectors.rows,
                         class_vectors.columns, mean.size(), hub_similarity.size());
  shift_ = tensor_of(mean, device).mul_(options.centring);
  offset_ = tensor_of(hub_similarity, device).mul_(-options.scale * options.hubness);
  parameters_.push_back({"class_vectors", tensor_of(class_vectors, device).set_requires_grad(true)});
}

at::Tensor PathClassifier::logits(const at::Tensor& documents) const {
  const at::Tensor centred = unit_rows(documents.to(at::kFloat).sub(shift_));
  return at::linear(centred.mul(options_.scale), parameters_[0].value, offset_);
}

Matrix PathClassifier::class_vectors() const { return matrix_of(parameters_[0].value); }

BilinearHead::BilinearHead(MatrixView class_embeddings, BilinearStart start, std::uint64_t seed, at::Device device) {
  const std::int64_t width = class_embeddings.columns;
  at::Tensor interaction = at::eye(width, at::TensorOptions().dtype(at::kFloat));
  if (start == BilinearStart::uniform) {
    RandomStream random(seed, /*stream=*/0xb111);
    const double bound = 1 / std::sqrt(static_cast<double>(width));
    float* values = interaction.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < width * width; ++i) values[i] = static_cast<float>((2 * random.uniform() - 1) * bound);
  }
  parameters_.push_back({"class_embeddings", tensor_of(class_embeddings, device).set_requires_grad(true)});
  parameters_.push_back({"interaction", interaction.to(device).set_requires_grad(true)});
}

at::Tensor BilinearHead::logits(const at::Tensor& documents) const {
  return at::linear(at::linear(documents.to(at::kFloat), parameters_[1].value), parameters_[0].value);
}

Matrix BilinearHead::class_embeddings() const { return matrix_of(parameters_[0].value); }
Matrix BilinearHead::interaction() const { return matrix_of(parameters_[1].value); }

template <typename Head>
Matrix head_logits(const Head& head, MatrixView rows) {
  const c10::NoGradGuard no_grad;
  const at::Device device = head.parameters()[0].value.device();
  return matrix_of(head.logits(host_view(rows.data, {rows.rows, rows.columns}).to(device)));
}
template Matrix head_logits(const PathClassifier&, MatrixView);
template Matrix head_logits(const BilinearHead&, MatrixView);

}  // namespace gpuhpc
