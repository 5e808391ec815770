#pragma once
// T5 on processors, for generation: weights packed once, sources encoded and texts written token by
// token on the kernels, without LibTorch. A text's scores do not depend on what is written beside
// it, nor on threads: only on the precision and the instruction set. Legend: A heads, D head size,
// V vocabulary.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {

// The sources that one thread writes for, with the keys and values of what stands there already.
// Each may have several rows: beams.
class CpuT5Texts {
 public:
  // Of source `source`, behind what was its row `parent` in the step before (in the first one
  // there is one row, 0).
  struct Row {
    std::int64_t source = 0, parent = 0;
    std::int32_t token = 0;
  };
  // (rows, V), `stride` apart; valid until the next call.
  struct Scores {
    float* data = nullptr;
    std::int64_t stride = 0;
  };
  virtual ~CpuT5Texts() = default;
  // Encodes more sources; returns the number of each, which may be one that was removed.
  virtual std::vector<std::int64_t> add(const PackedIds& sources) = 0;
  virtual void remove(std::int64_t source) = 0;
  // What stands behind these tokens. The rows of a source stand together and are all it goes on
  // with; sources that have none wait.
  virtual Scores step(std::span<const Row> rows) = 0;
};

class CpuT5 {
 public:
  virtual ~CpuT5() = default;
  // Many threads may write at once, each with texts of its own; at most `beams` rows a source.
  virtual std::unique_ptr<CpuT5Texts> make_texts(std::int64_t beams) const = 0;
};
// `model` must be on the CPU and outlive it; only its word table is read later. Sources and texts
// have so many tokens at most. bf16 on a level without it runs on the plain reference kernels; tf32
// is fp32.
std::unique_ptr<CpuT5> make_cpu_t5(const T5& model, CpuPrecision precision, kernels::Isa isa,
                                   std::int64_t longest_source, std::int64_t longest_text);

}  // namespace gpuhpc
