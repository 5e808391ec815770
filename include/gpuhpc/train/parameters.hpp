#pragma once
// The learnable tensors of a model, gathered into groups that share a learning rate and a weight
// decay.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

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

}  // namespace gpuhpc
