#pragma once
// The same encoder for inference on processors: weights packed once, whole documents pushed through
// layer by layer while their activations stay in one core's second-level cache. A document's result
// does not depend on its neighbours in a batch, nor on threads: only on the precision and the
// instruction set.
#include <cstdint>
#include <memory>
#include <string_view>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "gpuhpc/nn/encoder_config.hpp"

namespace gpuhpc {

class Encoder;
class CpuForward;

// Of weights and activations; sums, residual stream and layer norms are fp32. tf32: as fp32, but
// products with weights take 16 of their 24 bits, as three products of bf16 on AMX. int8: as bf16,
// but products with weights are of integers of 8 bits, weights with a scale for each output,
// activations with one for each token.
enum class CpuPrecision { fp32, tf32, bf16, int8 };
std::string_view to_string(CpuPrecision precision);  // "fp32", "tf32", "bf16", "int8"
CpuPrecision parse_cpu_precision(
    std::string_view name);  // throws usage_error naming the allowed words

// `wanted` where the level has kernels of its own for it, else fp32; throws configuration_error for
// int8, whose answers are others.
CpuPrecision usable_cpu_precision(CpuPrecision wanted, kernels::Isa isa);

// Buffers of one thread, and the seconds it spent in each part when `timed`.
class CpuWorkspace {
 public:
  virtual ~CpuWorkspace() = default;
  bool timed = false;
  struct Times {
    double linear = 0, attention = 0, other = 0;
  } times;
};

class CpuEncoder {
 public:
  // Copies the weights of `encoder`, which must be on the CPU. bf16, tf32 and int8 on a level
  // without them run on the plain reference kernels.
  CpuEncoder(const Encoder& encoder, CpuPrecision precision,
             kernels::Isa isa = kernels::best_isa());
  ~CpuEncoder();
  CpuEncoder(CpuEncoder&&) noexcept;
  CpuEncoder& operator=(CpuEncoder&&) noexcept;

  std::unique_ptr<CpuWorkspace> make_workspace() const;
  // Document vectors to `output` (B, hidden size) of documents of 1 to max_tokens() tokens. Many
  // threads may call at once, each with a workspace of its own.
  void embed(CpuWorkspace& workspace, const PackedIds& documents, const EmbeddingConfig& embedding,
             MutableMatrixView output) const;
  // Token vectors (T, hidden size) after the first `layers` layers (0: after the embeddings).
  void hidden(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t layers,
              MutableMatrixView output) const;

  const EncoderConfig& config() const;
  CpuPrecision precision() const;
  kernels::Isa isa() const;

 private:
  std::unique_ptr<CpuForward> forward_;
};

}  // namespace gpuhpc
