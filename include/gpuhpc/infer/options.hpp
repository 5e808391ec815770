#pragma once
// [infer]: how documents are encoded.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct InferOptions {
  std::string precision = "auto";      // auto: bf16 where the hardware multiplies bf16, else fp32
  std::string kernels = "auto";        // CPU instruction set; auto: the best this machine has
  std::int64_t max_length = 0;         // tokens of a window with [CLS] and [SEP]; 0: the model's own limit
  std::string long_documents = "truncate";  // truncate | mean (of the windows)
  std::int64_t token_budget = 0;       // tokens of one batch; 0: 2,048 on CPUs, 32,768 on GPUs
};
void declare(config::Section& section, InferOptions& options);  // infer.precision ...

}  // namespace gpuhpc
