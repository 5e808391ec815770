#pragma once
// A cross-encoder over pairs of texts: the probability that the first entails the second. Pairs are
// packed, no padding is computed; a pair's probability does not depend on which others are scored
// with it, nor on threads.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

using TokenIds = std::vector<std::int32_t>;

struct TextPair {
  std::int64_t premise = 0, hypothesis = 0;  // places in the two lists
};

class PairScorer {
 public:
  // A Hugging Face folder of a sequence classifier with the label "entailment". input_error for one
  // without, or whose tokenizer does not fit.
  PairScorer(const std::filesystem::path& folder, const InferOptions& options,
             const DeviceChoice& device);
  ~PairScorer();

  const Tokenizer& tokenizer() const;
  std::string describe() const;  // "bf16 on amx, 2 threads"
  // One softmax probability per pair. Premises and hypotheses are ids without special tokens; a
  // premise is cut where the pair would be longer than the model allows.
  std::vector<float> entailment(std::span<const TokenIds> premises,
                                std::span<const TokenIds> hypotheses,
                                std::span<const TextPair> pairs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
