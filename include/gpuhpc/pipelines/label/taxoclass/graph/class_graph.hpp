#pragma once
// TaxoClass's classifier head (Shen et al. 2021, section 3.3): class vectors from a graph network
// over each class's ego network (the class, its parents, its children), matched with document
// vectors. Legend: B documents, C classes, F feature width, G hidden width, H document width.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/nn/heads.hpp"

namespace gpuhpc {

// The ego networks of all classes side by side: nodes of one graph without edges between networks.
struct EgoNetworks {
  std::vector<std::int64_t> classes;  // (nodes) the class each node stands for
  std::vector<std::int64_t> owners;   // (nodes) the class whose network it belongs to, ascending
  std::vector<std::int64_t> sources,
      targets;  // edges, both ways, with an edge from every node to itself
  // a_uv = 1 / sqrt(|N(u)| |N(v)|), N: neighbours within the network and the node itself
  std::vector<float> weights;
  std::vector<float> shares;  // (nodes) 1 / nodes of its network
};
EgoNetworks ego_networks(const Taxonomy& taxonomy);

struct ClassGraphOptions {
  std::int64_t hidden = 512,
               layers = 3;  // 0 layers: no graph, class vectors are the features themselves
  bool residual = true;     // see below: against over-smoothing
  double scale = 1;         // of logits
};

// logit(d, c) = scale * unit(d - common) . (B r_c [+ x_c]) + b_c. r_c: mean over c's ego
// network of the last layer's h_u [less the mean over all classes], h_u(l) = ReLU(sum over v in
// N(u) of a_uv W_l h_v(l-1)) [+ h_u(l-1)], h_u(0) = x_u. In brackets: with `residual`, where F must
// be H and B starts at 0, so that the first class vectors are the features.
class ClassGraphHead : public HeadParameters {
 public:
  // features x (C,F), bias b (C): where they start. common (H): what centring takes off documents.
  ClassGraphHead(const Taxonomy& taxonomy, MatrixView features, std::span<const float> bias,
                 std::span<const float> common, const ClassGraphOptions& options,
                 std::uint64_t seed, at::Device device = at::kCPU);
  at::Tensor class_tensor() const;                       // (C,H), with graph for autograd
  at::Tensor logits(const at::Tensor& documents) const;  // unit rows (B,H) -> (B,C), fp32
  Matrix class_vectors() const;     // (C,H), scale included: what a finished model keeps
  std::vector<float> bias() const;  // (C)

 private:
  const at::Tensor& parameter(std::size_t i) const { return parameters_[i].value; }
  ClassGraphOptions options_;
  at::Tensor common_;  // (H)
  at::Tensor node_classes_, owners_, sources_, targets_, weights_, shares_;
  std::int64_t classes_;
};

// sum over d and c of KL(q || p) of two outcomes, p = sigmoid(logits): both Bernoulli terms.
// logits, targets q (B,C) in 0..1.
at::Tensor binary_divergence(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gpuhpc
