#pragma once
// Texts that a T5 writes: greedy, beams or sampling, as transformers' generate() counts; spread
// over ranks. A finished text leaves its batch; on processors the next source takes its place.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/infer/generate_options.hpp"
#include "gpuhpc/infer/runner.hpp"
#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/nn/cpu_t5.hpp"
#include "gpuhpc/nn/t5_decoder.hpp"

namespace gpuhpc {

using TokenList = std::vector<std::int32_t>;

class T5Generator {
 public:
  // `model` must outlive it. Sources are cut to `source_length` tokens, those of `form` included.
  T5Generator(const T5& model, TextTemplate form, std::int64_t source_length,
              const GenerateOptions& options, const InferOptions& infer,
              const DeviceChoice& device);
  std::string describe() const;  // "bf16 on avx512-bf16, 2 threads"

  // The texts of all of `sources`, in order, on every rank, without the end's token; `first`: the
  // number of the first one. Numbers seed the draws. Neither ranks nor threads change anything.
  // Collective.
  std::vector<TokenList> generate_together(
      const TokenSource& sources, std::int64_t first, Communicator& comm,
      const std::function<void(std::int64_t)>& progress = {}) const;

 private:
  struct Work;
  class Writer;
  void write_on_processors(const Work& work) const;
  std::vector<TokenList> generate_batch(const PackedIds& sources) const;

  const T5& model_;
  TextTemplate form_;
  std::int64_t source_length_;
  GenerateOptions options_;
  InferPlan plan_;
  kernels::WordKernels words_;
  std::unique_ptr<CpuT5> on_processors_;
  std::optional<T5Decoder> on_device_;
};

}  // namespace gpuhpc
