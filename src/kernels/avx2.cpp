#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma")

namespace gpuhpc::kernels {
namespace {

#include "avx2_vector.inl"
#include "simd_decoder.inl"
#include "simd_f32.inl"
#include "simd_math.inl"
#include "simd_training.inl"

}  // namespace

void set_avx2(EncoderKernels<float>& kernels) { set_f32<V8>(kernels); }
void set_avx2(TrainingKernels<float>& kernels) { set_simd<float, V8>(kernels); }
void set_avx2(PackingKernels<float>& kernels) { set_packing<V8>(kernels); }
void set_avx2(DecoderKernels<float>& kernels) { set_decoder<float, V8>(kernels); }
void set_avx2(WordKernels& kernels) { set_words<V8>(kernels); }

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
