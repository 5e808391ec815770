#pragma once
// The parameters of a model in one flat fp32 buffer, its gradients in a second one of the same
// layout. The model keeps views: autograd accumulates straight into the gradient buffer, so the sum
// over ranks is one all_reduce, the norm one reduction, the optimizer one loop, and a rank's share
// under a sharded optimizer a slice.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"

namespace gpuhpc {

// One learnable tensor; `rebind` puts a view of the arena in its place inside the model.
struct ParameterSlot {
  std::string name;
  at::Tensor value;
  std::function<void(at::Tensor)> rebind;
};

struct ParameterGroup {
  std::string name;
  double learning_rate = 0;
  double weight_decay = 0;
  std::vector<ParameterSlot> parameters;
};

// Everything in `model` that requires gradients. A model (Encoder, PathClassifier, ...) has
// parameters() -> vector of {name, value} and rebind(i, tensor); it must outlive the slots.
template <typename Model>
std::vector<ParameterSlot> trained_parameters(Model& model) {
  std::vector<ParameterSlot> slots;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const auto& parameter = model.parameters()[i];
    if (parameter.value.requires_grad())
      slots.push_back({parameter.name, parameter.value,
                       [&model, i](at::Tensor view) { model.rebind(i, std::move(view)); }});
  }
  return slots;
}

// Tensors of fewer than two dimensions (biases, LayerNorm weights) get no weight decay. Empty
// groups are left out.
std::vector<ParameterGroup> split_by_decay(const std::string& name, double learning_rate,
                                           double weight_decay,
                                           const std::vector<ParameterSlot>& parameters);

class ParameterArena {
 public:
  struct Entry {
    std::string name;
    Range range;  // floats of the flat buffers
    std::vector<std::int64_t> shape;
  };
  struct Group {
    std::string name;
    double learning_rate, weight_decay;
    Range range;  // floats, padding included
  };

  // Copies the values (any floating type) into the arena and rebinds every slot. A tensor given
  // twice (tied weights) takes one place. All parameters live on the device of the first. The
  // buffers are padded so that `ranks` equal slices cover them.
  explicit ParameterArena(const std::vector<ParameterGroup>& groups, int ranks = 1);

  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<at::Tensor>& leaves() const {
    return leaves_;
  }                                                 // one an entry: what the model computes with
  at::Tensor& parameters() { return parameters_; }  // (capacity) fp32, zero in the padding
  at::Tensor& gradients() { return gradients_; }    // (capacity)
  std::int64_t capacity() const { return capacity_; }
  std::int64_t parameter_count() const { return count_; }  // without padding
  // The floats that belong to `rank`: equal for all ranks, multiples of 16 (64 bytes).
  Range slice(int rank, int size) const;
  void zero_gradients();

 private:
  std::vector<Group> groups_;
  std::vector<Entry> entries_;
  std::vector<at::Tensor> leaves_;
  at::Tensor parameters_, gradients_;
  std::int64_t capacity_ = 0, count_ = 0;
};

}  // namespace gpuhpc
