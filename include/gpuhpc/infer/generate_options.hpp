#pragma once
// [generate]: how a text is generated.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

// Each means what transformers' generate() makes of it.
struct GenerateOptions {
  static constexpr const char* section = "generate";
  std::int64_t beams = 3;                        // 1: greedy, or sampling
  std::int64_t max_length = 64, min_length = 0;  // new tokens, the end's included
  double length_penalty = 1;                     // beams: scores are divided by length^this
  std::string early_stopping = "false";          // beams: false | true | never
  double repetition_penalty = 1;
  std::int64_t no_repeat_ngram = 0;  // 0: any n-gram may come again
  bool sample = false;
  double temperature = .8, top_p = 1;
  std::int64_t top_k = 0;  // 0: all words
  std::int64_t seed = 42;
  void check() const;  // usage_error for options that contradict each other
};
void declare(config::Section& section, GenerateOptions& options);

}  // namespace gpuhpc
