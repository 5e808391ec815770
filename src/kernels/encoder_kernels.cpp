#include "gpuhpc/kernels/encoder_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "levels.hpp"

namespace gpuhpc::kernels {

std::int64_t attention_scratch_bytes(std::int64_t tokens, std::int64_t head_size) {
  const std::int64_t keys = round_up(tokens, 32), width = round_up(head_size, 32);
  const std::int64_t keys_and_values = 2 * keys * width * 4, scores = 2 * 32 * keys * 4,
                     results = 32 * width * 4;
  return keys_and_values + scores + results + 1024;
}

template <>
EncoderKernels<float> encoder_kernels<float>(Isa isa) {
  return best_table<EncoderKernels<float>>(isa);
}
template <>
EncoderKernels<BFloat16> encoder_kernels<BFloat16>(Isa isa) {
  auto kernels = best_table<EncoderKernels<BFloat16>>(isa);
  // as fast as in fp32, where VDPBF16PS takes twice the time
  if (isa == Isa::avx512_bf16 && !prefers_bf16(isa)) set_widened_attention(kernels);
  return kernels;
}
template <>
EncoderKernels<float, SplitBFloat16> encoder_kernels<float, SplitBFloat16>(Isa isa) {
  EncoderKernels<float, SplitBFloat16> kernels;
  set_generic(kernels);
  // all but the products with weights is fp32
  kernels.attention = encoder_kernels<float>(isa).attention;
  kernels.relative_scores = encoder_kernels<BFloat16>(isa).relative_scores;  // in fp32 too
  if (isa >= Isa::amx) set_amx(kernels);
  return kernels;
}
template <>
EncoderKernels<BFloat16, Int8> encoder_kernels<BFloat16, Int8>(Isa isa) {
  auto kernels = best_table<EncoderKernels<BFloat16, Int8>>(isa);
  const auto others = encoder_kernels<BFloat16>(isa);  // all but the products with weights is bf16
  kernels.attention = others.attention;
  kernels.relative_scores = others.relative_scores;
  return kernels;
}

std::int64_t attention_gradient_scratch_bytes(std::int64_t tokens, std::int64_t head_size) {
  const std::int64_t keys = round_up(tokens, 32), width = round_up(head_size, 32);
  // fp32: q, k, g, dk, dv; k^T and v^T; P and dS of up to 128 queries
  const std::int64_t stride = keys + 16, vectors = 5 * keys * width * 4 + 2 * width * stride * 4 +
                                                   2 * (keys < 128 ? keys : 128) * stride * 4;
  const std::int64_t tiles = 8 * keys * width * 2 + 2 * keys * keys * 2 + 2 * 32 * keys * 4 +
                             32 * keys * 2 + 32 * width * 4;
  return (vectors > tiles ? vectors : tiles) + 4096;
}

Dropout make_dropout(double rate, std::uint64_t key) {
  if (rate <= 0) return {};
  // SplitMix64's finaliser (Steele et al. 2014): Squares wants keys whose bits look random.
  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9;
  key = (key ^ key >> 27) * 0x94d049bb133111eb;
  const double threshold = std::min(65535.0, std::round(rate * 65536));
  return {(key ^ key >> 31) | 1, 0, static_cast<std::uint32_t>(threshold),
          static_cast<float>(65536 / (65536 - threshold))};
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
