#include "gpuhpc/kernels/training_kernels.hpp"

#include "levels.hpp"

namespace gpuhpc::kernels {

std::int64_t attention_gradient_scratch_bytes(std::int64_t tokens, std::int64_t head_size) {
  const std::int64_t keys = round_up(tokens, 32), width = round_up(head_size, 32);
  // fp32: q, k, g, dk, dv; k^T and v^T; P and dS of up to 128 queries
  const std::int64_t stride = keys + 16, vectors = 5 * keys * width * 4 + 2 * width * stride * 4 +
                                                   2 * (keys < 128 ? keys : 128) * stride * 4;
  const std::int64_t tiles = 8 * keys * width * 2 + 2 * keys * keys * 2 + 2 * 32 * keys * 4 +
                             32 * keys * 2 + 32 * width * 4;
  return (vectors > tiles ? vectors : tiles) + 4096;
}

template <>
TrainingKernels<float> training_kernels<float>(Isa isa) {
  return best_table<TrainingKernels<float>>(isa);
}
template <>
TrainingKernels<BFloat16> training_kernels<BFloat16>(Isa isa) {
  return best_table<TrainingKernels<BFloat16>>(isa);
}

}  // namespace gpuhpc::kernels
