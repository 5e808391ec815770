#pragma once
// The layers of CpuEncoder in every precision; private to room nn.
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "gpuhpc/nn/cpu_encoder.hpp"

namespace gpuhpc {

// x W^T + b of one vector, in fp32 with sums of double: for the few products that are one a
// document.
class HostLinear {
 public:
  HostLinear() = default;
  HostLinear(const at::Tensor& weight,
             const at::Tensor& bias);  // (outputs, inputs); undefined: none
  bool empty() const { return outputs_ == 0; }
  std::int64_t outputs() const { return outputs_; }
  std::vector<float> operator()(const float* x) const;

 private:
  std::int64_t inputs_ = 0, outputs_ = 0;
  std::vector<float> weight_, bias_;  // (inputs, outputs), (outputs)
};

class CpuForward {
 public:
  CpuForward(const Encoder& encoder, CpuPrecision precision, kernels::Isa isa);
  virtual ~CpuForward() = default;

  // fp32 token vectors (rows, stride), valid until the workspace is used again.
  struct Rows {
    const float* data = nullptr;
    std::int64_t stride = 0;
    const float* row(std::int64_t i) const { return data + i * stride; }
  };
  virtual std::unique_ptr<CpuWorkspace> make_workspace() const = 0;
  // The first `layers` layers on documents [first, last). `first_tokens`: only the rows of the
  // documents' first tokens, one per document; the last layer computes nothing else behind its
  // attention.
  virtual Rows run(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t first,
                   std::int64_t last, std::int64_t layers, bool first_tokens) const = 0;
  virtual std::int64_t rows_at_once()
      const = 0;  // tokens whose activations fit the cache beside a slice of weights

  const EncoderConfig& config() const { return config_; }
  CpuPrecision precision() const { return precision_; }
  kernels::Isa isa() const { return isa_; }
  // tanh(dense(first token)); throws when the encoder has no pooler.
  void pooler(const float* first_token, float* output) const;
  // The Dense modules on the pooled vector.
  std::vector<float> dense(std::vector<float> vector, const EmbeddingConfig& embedding) const;

 private:
  EncoderConfig config_;
  CpuPrecision precision_;
  kernels::Isa isa_;
  HostLinear pooler_;  // (H,H)
  std::vector<HostLinear> dense_;
};

std::unique_ptr<CpuForward> make_cpu_forward(const Encoder& encoder, CpuPrecision precision,
                                             kernels::Isa isa);
// ModernBERT's.
std::unique_ptr<CpuForward> make_cpu_modern(const Encoder& encoder, CpuPrecision precision,
                                            kernels::Isa isa);

}  // namespace gpuhpc
