#include "gpuhpc/kernels/training_kernels.hpp"

#include "training_levels.hpp"

namespace gpuhpc::kernels {

std::int64_t attention_gradient_scratch_bytes(std::int64_t tokens, std::int64_t head_size) {
  const std::int64_t keys = round_up(tokens, 32), width = round_up(head_size, 32);
  const std::int64_t vectors = 8 * keys * width * 4 + 2 * 32 * keys * 4;          // fp32: q, k, v, g, k^T, v^T, dk, dv; rows of S and dP
  const std::int64_t tiles = 8 * keys * width * 2 + 2 * keys * keys * 2 + 2 * 32 * keys * 4 + 32 * keys * 2 + 32 * width * 4;
  return (vectors > tiles ? vectors : tiles) + 4096;
}

template <>
TrainingKernels<float> training_kernels<float>(Isa isa) {
  require(isa);
  TrainingKernels<float> kernels;
  set_generic(kernels);
  if (isa >= Isa::avx2) set_avx2(kernels);
  if (isa >= Isa::avx512) set_avx512(kernels);
  return kernels;
}

template <>
TrainingKernels<BFloat16> training_kernels<BFloat16>(Isa isa) {
  require(isa);
  TrainingKernels<BFloat16> kernels;
  set_generic(kernels);
  if (isa >= Isa::avx512_bf16) set_avx512_bf16(kernels);
  if (isa >= Isa::amx) set_amx(kernels);
  return kernels;
}

}  // namespace gpuhpc::kernels
