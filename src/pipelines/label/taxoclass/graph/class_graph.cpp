#include "gpuhpc/pipelines/label/taxoclass/graph/class_graph.hpp"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {
namespace {

at::Tensor index_tensor(const std::vector<std::int64_t>& values, at::Device device) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {std::ssize(values)},
                       at::TensorOptions().dtype(at::kLong))
      .to(device, at::kLong, false, /*copy=*/true);
}

// Glorot and Bengio 2010: uniform within sqrt(6 / (in + out)).
at::Tensor glorot(std::int64_t out, std::int64_t in, RandomStream& random, at::Device device) {
  at::Tensor weight = at::empty({out, in}, at::TensorOptions().dtype(at::kFloat));
  const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
  float* values = weight.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < out * in; ++i)
    values[i] = static_cast<float>((2 * random.uniform() - 1) * bound);
  return weight.to(device).set_requires_grad(true);
}

// One network's nodes and edges behind those of `networks`.
void add_network(const Taxonomy& taxonomy, ClassId owner, EgoNetworks& networks) {
  std::vector<ClassId> nodes{owner};
  std::ranges::copy(taxonomy.parents(owner), std::back_inserter(nodes));
  std::ranges::copy(taxonomy.children(owner), std::back_inserter(nodes));
  const std::size_t first = networks.classes.size(), count = nodes.size();
  std::vector<std::vector<std::size_t>> neighbours(count);
  for (std::size_t u = 0; u < count; ++u) {
    for (std::size_t v = 0; v < count; ++v) {
      const auto is_child = [&](ClassId parent, ClassId child) {
        return std::ranges::binary_search(taxonomy.children(parent), child);
      };
      if (u == v || is_child(nodes[u], nodes[v]) || is_child(nodes[v], nodes[u]))
        neighbours[u].push_back(v);
    }
    networks.classes.push_back(nodes[u]);
    networks.owners.push_back(owner);
    networks.shares.push_back(1 / static_cast<float>(count));
  }
  for (std::size_t u = 0; u < count; ++u)
    for (const std::size_t v : neighbours[u]) {
      networks.targets.push_back(static_cast<std::int64_t>(first + u));
      networks.sources.push_back(static_cast<std::int64_t>(first + v));
      networks.weights.push_back(static_cast<float>(
          1 / std::sqrt(static_cast<double>(neighbours[u].size() * neighbours[v].size()))));
    }
}

// Row targets[e] += weights[e] * rows[sources[e]] over all edges e.
at::Tensor spread(const at::Tensor& rows, const at::Tensor& sources, const at::Tensor& targets,
                  const at::Tensor& weights, std::int64_t count) {
  const at::Tensor sums = at::zeros({count, rows.size(1)}, rows.options());
  return sums.index_add(0, targets, rows.index_select(0, sources).mul(weights.unsqueeze(1)));
}

}  // namespace

EgoNetworks ego_networks(const Taxonomy& taxonomy) {
  EgoNetworks networks;
  for (ClassId c = 0; c < taxonomy.size(); ++c) add_network(taxonomy, c, networks);
  return networks;
}

ClassGraphHead::ClassGraphHead(const Taxonomy& taxonomy, MatrixView features,
                               std::span<const float> bias, std::span<const float> common,
                               const ClassGraphOptions& options, std::uint64_t seed,
                               at::Device device)
    : options_(options), classes_(features.rows) {
  const std::int64_t width = std::ssize(common);
  if (features.rows != taxonomy.size() || std::ssize(bias) != taxonomy.size())
    throw internal_error("class graph: {} classes, features of {}, biases of {}", taxonomy.size(),
                         features.rows, bias.size());
  if ((options.residual || options.layers == 0) && features.columns != width)
    throw internal_error(
        "class graph: features of width {} are to be matched with documents of width {}",
        features.columns, width);
  const EgoNetworks networks = ego_networks(taxonomy);
  node_classes_ = index_tensor(networks.classes, device),
  owners_ = index_tensor(networks.owners, device);
  sources_ = index_tensor(networks.sources, device),
  targets_ = index_tensor(networks.targets, device);
  weights_ = to_tensor(networks.weights, device), shares_ = to_tensor(networks.shares, device);
  RandomStream random(seed, /*stream=*/0x6a7);
  common_ = to_tensor(common, device);
  parameters_.push_back({"features", to_tensor(features, device).set_requires_grad(true)});
  parameters_.push_back({"bias", to_tensor(bias, device).set_requires_grad(true)});
  if (options.layers == 0) return;
  const at::Tensor interaction =
      options.residual
          ? at::zeros({width, options.hidden}, at::TensorOptions().dtype(at::kFloat).device(device))
                .set_requires_grad(true)
          : glorot(width, options.hidden, random, device);
  parameters_.push_back({"interaction", interaction});
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    parameters_.push_back(
        {fmt::format("graph.{}", layer),
         glorot(options.hidden, layer == 0 ? features.columns : options.hidden, random, device)});
}

at::Tensor ClassGraphHead::class_tensor() const {
  const at::Tensor& features = parameter(0);
  if (options_.layers == 0) return features;
  // The first layer's product is of the classes, not of the many nodes that stand for them.
  const std::int64_t nodes = node_classes_.size(0);
  at::Tensor rows;
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    const at::Tensor& weight = parameter(static_cast<std::size_t>(3 + layer));
    const at::Tensor products = layer == 0
                                    ? at::linear(features, weight).index_select(0, node_classes_)
                                    : at::linear(rows, weight);
    const at::Tensor next = spread(products, sources_, targets_, weights_, nodes).relu();
    rows = options_.residual && layer > 0 ? rows.add(next) : next;
  }
  at::Tensor readout = at::zeros({classes_, rows.size(1)}, rows.options())
                           .index_add(0, owners_, rows.mul(shares_.unsqueeze(1)));
  if (!options_.residual) return at::linear(readout, parameter(2));
  readout = readout.sub(readout.mean(at::IntArrayRef{0}, /*keepdim=*/true));
  return at::linear(readout, parameter(2)).add(features);
}

at::Tensor ClassGraphHead::logits(const at::Tensor& documents) const {
  return at::linear(unit_rows(documents.to(at::kFloat).sub(common_)).mul(options_.scale),
                    class_tensor(), parameter(1));
}

Matrix ClassGraphHead::class_vectors() const {
  const c10::NoGradGuard no_grad;
  return to_matrix(class_tensor().mul(options_.scale));
}

std::vector<float> ClassGraphHead::bias() const { return to_matrix(parameter(1)).values; }

at::Tensor binary_divergence(const at::Tensor& logits, const at::Tensor& targets) {
  // xlogy is 0 where q is: the targets' own entropy has no gradient, and makes the loss 0 where p =
  // q.
  const at::Tensor none = targets.neg().add(1);
  const at::Tensor entropy = at::xlogy(targets, targets).add(at::xlogy(none, none)).sum();
  return at::binary_cross_entropy_with_logits(logits.to(at::kFloat), targets, {}, {},
                                              at::Reduction::Sum)
      .add(entropy);
}

}  // namespace gpuhpc
