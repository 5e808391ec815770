#pragma once
// Texts that a T5 writes: greedy, beams or sampling, as transformers' generate() counts, with
// finished texts leaving the batch; spread over ranks.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/infer/generate_options.hpp"
#include "gpuhpc/infer/runner.hpp"
#include "gpuhpc/nn/t5_decoder.hpp"

namespace gpuhpc {

using TokenList = std::vector<std::int32_t>;

class T5Generator {
 public:
  // `model` must outlive it. Sources are cut to `source_length` tokens, those of `form` included.
  T5Generator(const T5& model, TextTemplate form, std::int64_t source_length,
              const GenerateOptions& options, const InferOptions& infer,
              const DeviceChoice& device);
  std::string describe() const;  // "bf16 by LibTorch, 2 threads"

  // The texts of these sources, without the end's token; their numbers seed the draws.
  std::vector<TokenList> generate(const PackedIds& sources) const;
  // Of all of `sources`, in order, on every rank; `first`: the number of the first one. Batches are
  // cut from the lengths alone, so the ranks change nothing. Collective.
  std::vector<TokenList> generate_together(
      const TokenSource& sources, std::int64_t first, Communicator& comm,
      const std::function<void(std::int64_t)>& progress = {}) const;

 private:
  const T5& model_;
  TextTemplate form_;
  std::int64_t source_length_;
  GenerateOptions options_;
  InferPlan plan_;
  T5Decoder decoder_;
};

}  // namespace gpuhpc
