#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")

namespace gpuhpc::kernels {
namespace {

#include "avx512_vector.inl"
#include "simd_decoder.inl"
#include "simd_f32.inl"
#include "simd_math.inl"
#include "simd_training.inl"

}  // namespace

void set_avx512(EncoderKernels<float>& kernels) { set_f32<V16>(kernels); }
void set_avx512(TrainingKernels<float>& kernels) { set_simd<float, V16>(kernels); }
void set_avx512(PackingKernels<float>& kernels) { set_packing<V16>(kernels); }
void set_avx512(DecoderKernels<float>& kernels) { set_decoder<float, V16>(kernels); }
void set_avx512(WordKernels& kernels) { set_words<V16>(kernels); }

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
