#pragma once
// [infer]: how documents are encoded.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"

namespace gpuhpc {

struct InferOptions {
  static constexpr const char* section = "infer";
  std::string precision = "auto";  // auto: bf16 where the hardware multiplies bf16, fp16 on older
                                   // GPUs, else fp32; tf32: fp32 where it has no such products;
                                   // int8: refused where it has none
  std::string kernels = "auto";    // CPU instruction set; auto: the best this machine has
  std::int64_t max_length = 0;  // tokens of a window with [CLS] and [SEP]; 0: the model's own limit
  std::string long_documents = "truncate";  // truncate | mean (of the windows)
  std::int64_t batch = 0;         // documents of one batch at most; 0: the token budget alone
  std::int64_t token_budget = 0;  // tokens of one batch; 0: 2,048 on CPUs, 32,768 on GPUs

  // The CPU kernels that are used. Throws what parse_isa() throws.
  gpuhpc::kernels::Isa isa() const;
  // With those kernels. Throws configuration_error for int8 that they do not multiply.
  CpuPrecision cpu_precision() const;
  // fp32, tf32, bf16 or fp16. Throws configuration_error for int8, and for bf16 on a GPU without.
  std::string gpu_precision(bool has_bf16) const;
};
void declare(config::Section& section, InferOptions& options);  // infer.precision ...

}  // namespace gpuhpc
