#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace gpuhpc::kernels {
namespace {

#include "avx512_bf16.inl"
#include "avx512_vector.inl"
#include "simd_decoder.inl"
#include "simd_f32.inl"
#include "simd_math.inl"
#include "simd_training.inl"

template <>
struct Io<BFloat16, V16> {
  static V16 load(const BFloat16* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))};
  }
  static void store(BFloat16* p, V16 v) { store_bf16(p, v.v); }
  static float one(const BFloat16* p) { return to_float(*p); }
  static void store_one(BFloat16* p, float v) { *p = to_bf16(v); }
};

}  // namespace

void set_widened_attention(EncoderKernels<BFloat16>& kernels) {
  kernels.attention = attention_f32<BFloat16, V16>;
}
void set_avx512_bf16(TrainingKernels<BFloat16>& kernels) { set_simd<BFloat16, V16>(kernels); }
void set_avx512_bf16(DecoderKernels<BFloat16>& kernels) { set_decoder<BFloat16, V16>(kernels); }

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
