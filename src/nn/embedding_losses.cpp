#include "gpuhpc/nn/embedding_losses.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/nn/ops.hpp"

namespace gpuhpc {
namespace {

at::Tensor distances(const at::Tensor& a, const at::Tensor& b, Distance distance) {
  constexpr double epsilon = 1e-6;  // of each difference, as PyTorch's pairwise_distance has it
  switch (distance) {
    case Distance::cosine:
      return 1 - row_cosines(a, b);
    case Distance::euclidean:
      return (a - b + epsilon).square().sum(1).sqrt();
    case Distance::manhattan:
      return (a - b + epsilon).abs().sum(1);
  }
  throw internal_error("distance {} is unknown", static_cast<int>(distance));
}

at::Tensor diagonal_cross_entropy(const at::Tensor& scores) {
  return at::log_softmax(scores, 1).diagonal().sum().neg();
}

}  // namespace

Distance parse_distance(const std::string& word) {
  if (word == "cosine") return Distance::cosine;
  if (word == "euclidean") return Distance::euclidean;
  if (word == "manhattan") return Distance::manhattan;
  throw usage_error("distance `{}` is not one of cosine, euclidean, manhattan", word);
}

at::Tensor in_batch_negatives(const Columns& columns, double scale) {
  const at::Tensor candidates = at::cat(Columns(columns.begin() + 1, columns.end()));
  return diagonal_cross_entropy(at::matmul(unit_rows(columns[0]), unit_rows(candidates).t()) *
                                scale);
}

at::Tensor symmetric_in_batch_negatives(const Columns& columns, double scale) {
  const at::Tensor scores = at::matmul(unit_rows(columns[0]), unit_rows(columns[1]).t()) * scale;
  return (diagonal_cross_entropy(scores) + diagonal_cross_entropy(scores.t())) / 2;
}

at::Tensor triplet_loss(const Columns& columns, Distance distance, double margin) {
  return at::relu(distances(columns[0], columns[1], distance) -
                  distances(columns[0], columns[2], distance) + margin)
      .sum();
}

at::Tensor row_cosines(const at::Tensor& a, const at::Tensor& b) {
  return (unit_rows(a) * unit_rows(b)).sum(1);
}

at::Tensor row_angles(const at::Tensor& a, const at::Tensor& b) {
  const auto even = [](const at::Tensor& rows) {
    return rows.size(1) % 2 == 0 ? rows : at::constant_pad_nd(rows, {0, 1});
  };
  const at::Tensor x = unit_rows(even(a)), y = unit_rows(even(b));
  const std::int64_t half = x.size(1) / 2;
  const auto real = [&](const at::Tensor& z) { return z.narrow(1, 0, half); };
  const auto imaginary = [&](const at::Tensor& z) { return z.narrow(1, half, half); };
  // The quotient of x and y has the real part x.y and the imaginary part below.
  const at::Tensor turned = (imaginary(x) * real(y) - real(x) * imaginary(y)).sum(1);
  return ((x * y).sum(1) + turned).abs();
}

at::Tensor cosine_loss(const Columns& columns, const at::Tensor& scores) {
  return (row_cosines(columns[0], columns[1]) - scores).square().sum();
}

at::Tensor ranking_loss(const at::Tensor& similarities, const at::Tensor& scores, double scale) {
  const at::Tensor scaled = similarities * scale;
  const at::Tensor differences = scaled.unsqueeze(1) - scaled.unsqueeze(0),
                   lower = scores.unsqueeze(1) < scores.unsqueeze(0);
  return at::logsumexp(
      at::cat({at::zeros({1}, scaled.options()), differences.masked_select(lower)}), 0);
}

at::Tensor margin_mse_loss(const Columns& columns, const at::Tensor& differences) {
  const at::Tensor found = (columns[0] * (columns[1] - columns[2])).sum(1);
  return (found - differences).square().sum();
}

at::Tensor distillation_loss(const Columns& columns, const at::Tensor& scores, double temperature) {
  Columns products;
  for (std::size_t i = 1; i < columns.size(); ++i)
    products.push_back((columns[0] * columns[i]).sum(1));
  const at::Tensor found = at::log_softmax(at::stack(products, 1) / temperature, 1),
                   wanted = at::log_softmax(scores / temperature, 1);
  return (wanted.exp() * (wanted - found)).sum() * (temperature * temperature);
}

at::Tensor softmax_logits(const Columns& columns, const at::Tensor& weight,
                          const at::Tensor& bias) {
  const at::Tensor &u = columns[0], &v = columns[1];
  return at::linear(at::cat({u, v, (u - v).abs()}, 1), weight, bias);
}

at::Tensor softmax_loss(const at::Tensor& logits, const at::Tensor& classes) {
  return at::log_softmax(logits, 1).gather(1, classes.to(at::kLong).unsqueeze(1)).sum().neg();
}

Columns first_dimensions(const Columns& columns, std::int64_t dimensions) {
  Columns cut;
  for (const at::Tensor& column : columns)
    cut.push_back(unit_rows(column.narrow(1, 0, dimensions)));
  return cut;
}

}  // namespace gpuhpc
