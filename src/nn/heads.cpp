#include "gpuhpc/nn/heads.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/nn/embedding_losses.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {
PathClassifier::PathClassifier(MatrixView class_vectors, std::span<const float> common,
                               std::span<const float> hub_similarity,
                               const PathClassifierOptions& options, at::Device device)
    : options_(options) {
  if (class_vectors.columns != std::ssize(common) ||
      class_vectors.rows != std::ssize(hub_similarity))
    throw internal_error(
        "path classifier: {} x {} class vectors, a common part of {}, {} hub similarities",
        class_vectors.rows, class_vectors.columns, common.size(), hub_similarity.size());
  common_ = to_tensor(common, device);
  offset_ = to_tensor(hub_similarity, device).mul_(-options.scale * options.hubness);
  parameters_.push_back(
      {"class_vectors", to_tensor(class_vectors, device).set_requires_grad(true)});
}

at::Tensor PathClassifier::logits(const at::Tensor& documents) const {
  const at::Tensor centred = unit_rows(documents.to(at::kFloat).sub(common_));
  return at::linear(centred.mul(options_.scale), parameters_[0].value, offset_);
}

Matrix PathClassifier::class_vectors() const { return to_matrix(parameters_[0].value); }

BilinearHead::BilinearHead(MatrixView class_embeddings, BilinearStart start, std::uint64_t seed,
                           at::Device device) {
  const std::int64_t width = class_embeddings.columns;
  at::Tensor interaction = at::eye(width, at::TensorOptions().dtype(at::kFloat));
  if (start == BilinearStart::uniform) {
    RandomStream random(seed, /*stream=*/0xb111);
    const double bound = 1 / std::sqrt(static_cast<double>(width));
    float* values = interaction.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < width * width; ++i)
      values[i] = static_cast<float>((2 * random.uniform() - 1) * bound);
  }
  parameters_.push_back(
      {"class_embeddings", to_tensor(class_embeddings, device).set_requires_grad(true)});
  parameters_.push_back({"interaction", interaction.to(device).set_requires_grad(true)});
}

at::Tensor BilinearHead::logits(const at::Tensor& documents) const {
  return at::linear(at::linear(documents.to(at::kFloat), parameters_[1].value),
                    parameters_[0].value);
}

PairClassifier::PairClassifier(std::int64_t width, std::int64_t classes, std::uint64_t seed,
                               at::Device device) {
  RandomStream random(seed, /*stream=*/0x50f7);
  const double bound = 1 / std::sqrt(3. * static_cast<double>(width));
  for (const auto& [name, shape] : {std::pair("weight", std::vector{classes, 3 * width}),
                                    std::pair("bias", std::vector{classes})}) {
    at::Tensor values = at::empty(shape, at::TensorOptions().dtype(at::kFloat));
    float* const numbers = values.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i)
      numbers[i] = static_cast<float>((2 * random.uniform() - 1) * bound);
    parameters_.push_back({name, values.to(device).set_requires_grad(true)});
  }
}

at::Tensor PairClassifier::logits(const std::vector<at::Tensor>& columns) const {
  return softmax_logits(columns, parameters_[0].value, parameters_[1].value);
}

Matrix BilinearHead::class_embeddings() const { return to_matrix(parameters_[0].value); }
Matrix BilinearHead::interaction() const { return to_matrix(parameters_[1].value); }

}  // namespace gpuhpc
