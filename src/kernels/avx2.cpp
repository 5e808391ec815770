#include <immintrin.h>

#include "levels.hpp"
#include "target.hpp"

GPUHPC_TARGET_BEGIN("avx2,fma")

namespace gpuhpc::kernels {
namespace {

#include "avx2_vector.inl"
#include "simd_math.inl"
#include "simd_f32.inl"

}  // namespace

void set_avx2(EncoderKernels<float>& kernels) {
  kernels.linear = linear_f32<V8>;
  kernels.accumulate = accumulate_f32<V8>;
  kernels.attention = attention_f32<V8>;
  kernels.layer_norm = layer_norm_f32<V8>;
}

}  // namespace gpuhpc::kernels

GPUHPC_TARGET_END
