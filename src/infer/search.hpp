#pragma once
// The search for one text, token by token; private to room infer. Scores and rules are those of
// transformers' generate(): a text's history begins with the id that decoding begins with.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/infer/generate_options.hpp"
#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {

class TextSearch {
 public:
  struct Text {
    std::vector<std::int32_t> tokens;  // behind the start's id
    float score = 0;                   // sum of log probabilities; of a finished one by its length
    std::int64_t parent = 0;           // row that it goes on from
  };
  // `number`: of the document, which seeds its draws.
  TextSearch(const GenerateOptions& options, const T5Config& config, std::int64_t number);
  // One more token: `scores`, rows `stride` apart, are the model's of the running texts, and used
  // up.
  void advance(const kernels::WordKernels& kernels, float* scores, std::int64_t stride);
  bool over() const { return over_; }
  // In the order of their rows.
  const std::vector<Text>& running() const { return running_; }
  std::vector<std::int32_t> best() const;  // without the end's token

 private:
  void apply_rules(std::span<float> scores, const Text& text) const;
  void advance_one(const kernels::WordKernels& kernels, std::span<float> scores);
  std::int32_t draw(std::span<const float> scores);
  void advance_beams(const kernels::WordKernels& kernels, float* scores, std::int64_t stride);
  std::int64_t length() const { return std::ssize(running_.front().tokens); }

  GenerateOptions options_;
  std::int64_t words_;
  std::int32_t start_, eos_;
  RandomStream random_;
  std::vector<Text> running_{Text{}}, finished_;  // the latter best first
  bool can_improve_ = true, over_ = false;
};

}  // namespace gpuhpc
