#pragma once
// A cross-encoder over pairs of texts. Pairs are packed, no padding is computed; a pair's score
// does not depend on which others are scored with it, nor on threads.
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

// What is made of a pair's logits.
enum class PairScore {
  // The softmax probability of the label "entailment". The premise is cut where the pair would be
  // longer than the model allows.
  entailment,
  // Of a model that ranks, with one label: what sentence-transformers' CrossEncoder predicts, the
  // sigmoid of its logit or, where the folder says so, the logit. The longer text is cut.
  relevance
};

class PairScorer {
 public:
  // A Hugging Face folder of a sequence classifier. input_error for one without the labels that the
  // score needs, or whose tokenizer does not fit.
  PairScorer(const std::filesystem::path& folder, PairScore score, const InferOptions& options,
             const DeviceChoice& device);
  ~PairScorer();

  const Tokenizer& tokenizer() const;
  std::string describe() const;  // "bf16 on amx, 2 threads"
  // One score per pair. Premises and hypotheses are ids without special tokens.
  std::vector<float> scores(std::span<const TokenIds> premises,
                            std::span<const TokenIds> hypotheses,
                            std::span<const TextPair> pairs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
