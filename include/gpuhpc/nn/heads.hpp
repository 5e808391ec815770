#pragma once
// Classification heads over document vectors. Legend: B documents, K paths, C classes, H width.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {

// A head's learnable tensors, named and rebindable as those of an Encoder are.
class HeadParameters {
 public:
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  void rebind(std::size_t i, at::Tensor storage) { parameters_[i].value = std::move(storage); }

 protected:
  HeadParameters() = default;
  std::vector<NamedParameter> parameters_;
};

struct PathClassifierOptions {
  double scale = 20;  // logits = scale * (unit(x - common).c - hubness * r)
  // half CSLS: share of the class's mean similarity to its nearest documents that is taken off
  double hubness = .25;
};

// The student's head: one learnable vector a root-to-leaf path, scored as the refinement scores it.
class PathClassifier : public HeadParameters {
 public:
  // class_vectors (K,H), common (H): what centring takes off documents, hub_similarity r (K).
  PathClassifier(MatrixView class_vectors, std::span<const float> common,
                 std::span<const float> hub_similarity, const PathClassifierOptions& options = {},
                 at::Device device = at::kCPU);
  // (B,H) unit document vectors -> (B,K), fp32.
  at::Tensor logits(const at::Tensor& documents) const;
  Matrix class_vectors() const;  // (K,H)

 private:
  PathClassifierOptions options_;
  at::Tensor common_;  // (H)
  at::Tensor offset_;  // (K) scale * hubness * r
};

// How the interaction matrix of the bilinear head starts.
enum class BilinearStart {
  identity,  // class names score documents from the first step
  uniform    // +-1/sqrt(H), seeded: the published initialisation
};

// TELEClass's head: logit(d, c) = c^T W d with learnable class embeddings c (Zhang et al., WWW
// 2025, section 4.4).
class BilinearHead : public HeadParameters {
 public:
  // class_embeddings (C,H): encoded class names.
  BilinearHead(MatrixView class_embeddings, BilinearStart start, std::uint64_t seed,
               at::Device device = at::kCPU);
  at::Tensor logits(const at::Tensor& documents) const;  // (B,H) -> (B,C), fp32
  Matrix class_embeddings() const;                       // (C,H)
  Matrix interaction() const;                            // (H,H)
};

// The head of softmax_loss() (embedding_losses.hpp): "weight" (C,3H) and "bias" (C), drawn from
// +-1/sqrt(3H) by the seed.
class PairClassifier : public HeadParameters {
 public:
  PairClassifier(std::int64_t width, std::int64_t classes, std::uint64_t seed,
                 at::Device device = at::kCPU);
  at::Tensor logits(const std::vector<at::Tensor>& columns) const;  // (B,H), (B,H) -> (B,C)
};

}  // namespace gpuhpc
