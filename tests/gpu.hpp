#pragma once
// What the tests of the label gpu share. All of them run on GPU 0.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <string>

#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {

inline at::Device gpu() { return {at::kCUDA, 0}; }

// Only operators that give the same bits every time, as --device.deterministic asks for.
class Deterministic {
 public:
  Deterministic() { at::globalContext().setDeterministicAlgorithms(true, false); }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

// |a - b| / |b| over all elements, wherever they lie.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor ours = a.detach().to(at::kCPU, at::kDouble),
                   wanted = b.detach().to(at::kCPU, at::kDouble);
  return (ours - wanted).norm().item<double>() / wanted.norm().item<double>();
}

// A BERT of that many layers with heads of 32 (64 from 768 on), its weights as BERT starts: the
// same on every device.
inline Encoder random_bert(std::int64_t layers, std::int64_t hidden, at::Device device,
                           std::int64_t vocabulary = 1000) {
  EncoderConfig config;
  config.vocabulary_size = vocabulary;
  config.hidden_size = hidden;
  config.layers = layers;
  config.heads = hidden / (hidden < 768 ? 32 : 64);
  config.intermediate_size = 4 * hidden;
  config.position_rows = 512;
  config.token_types = 2;
  Encoder encoder(config, device, /*pooler=*/true);
  const at::Generator generator = make_generator(at::kCPU, 1);
  const c10::NoGradGuard no_grad;
  for (const NamedParameter& parameter : encoder.parameters()) {
    const at::Tensor noise = at::randn(parameter.value.sizes(), generator).mul(.02);
    parameter.value.copy_(parameter.name.ends_with("LayerNorm.weight") ? noise.add(1) : noise);
  }
  return encoder;
}

}  // namespace gpuhpc
