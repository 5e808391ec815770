#include "gpuhpc/infer/options.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"

namespace gpuhpc {

kernels::Isa InferOptions::isa() const {
  return kernels == "auto" ? kernels::best_isa() : kernels::parse_isa(kernels);
}

CpuPrecision InferOptions::cpu_precision() const {
  if (precision == "fp16") return CpuPrecision::fp32;
  if (precision == "auto")
    return kernels::prefers_bf16(isa()) ? CpuPrecision::bf16 : CpuPrecision::fp32;
  return usable_cpu_precision(parse_cpu_precision(precision), isa());
}

std::string InferOptions::gpu_precision(bool has_bf16) const {
  if (precision == "int8")
    throw configuration_error(
        "--infer.precision int8 is for processors; on a GPU use bf16, fp16 or auto");
  check_gpu_precision("infer.precision", precision, has_bf16);
  if (precision != "auto") return precision;
  return has_bf16 ? "bf16" : "fp16";
}

void declare(config::Section& section, InferOptions& options) {
  section
      .option("precision", options.precision,
              "precision of encoding; tf32: fp32 whose matrix products keep 10 bits of mantissa or "
              "more, 16 on AMX; fp16: on GPUs, on processors fp32; int8: encoders on processors "
              "with AMX or "
              "AVX-512 VNNI, refused elsewhere; cosines of their vectors to fp32's are about .999; "
              "auto takes bf16 where it is faster, fp16 on older GPUs, else fp32")
      .one_of({"auto", "fp32", "tf32", "bf16", "fp16", "int8"})
      .common();
  section
      .option("kernels", options.kernels,
              "instruction set of the CPU kernels; auto takes the best this machine has")
      .one_of({"auto", "generic", "avx2", "avx512", "avx512-bf16", "amx"});
  section
      .option("max-length", options.max_length,
              "longest window with [CLS] and [SEP]; 0 takes the model's own limit")
      .range(0, 1 << 20)
      .unit("tokens");
  section
      .option("long-documents", options.long_documents,
              "documents over max-length: first window only, or mean over all windows")
      .one_of({"truncate", "mean"});
  section
      .option("batch", options.batch,
              "documents of one batch at most; 0: as many as token-budget holds")
      .range(0, 1 << 30)
      .unit("documents")
      .execution();
  section
      .option("token-budget", options.token_budget,
              "size of one batch; 0 takes 2048 on CPUs (generate: 8192) and 32768 on GPUs")
      .range(0, 1 << 30)
      .unit("tokens");
}

}  // namespace gpuhpc
