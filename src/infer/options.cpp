#include "gpuhpc/infer/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, InferOptions& options) {
  section.option("precision", options.precision, "precision of encoding; auto takes bf16 where the hardware multiplies it, else fp32")
      .one_of({"auto", "fp32", "bf16"});
  section.option("kernels", options.kernels, "instruction set of the CPU kernels; auto takes the best this machine has")
      .one_of({"auto", "generic", "avx2", "avx512", "avx512-bf16", "amx"});
  section.option("max-length", options.max_length, "longest window with [CLS] and [SEP]; 0 takes the model's own limit")
      .range(0, 1 << 20)
      .unit("tokens");
  section.option("long-documents", options.long_documents, "documents over max-length: first window only, or mean over all windows")
      .one_of({"truncate", "mean"});
  section.option("token-budget", options.token_budget, "size of one batch; 0 takes 2048 on CPUs and 32768 on GPUs")
      .range(0, 1 << 30)
      .unit("tokens");
}

}  // namespace gpuhpc
