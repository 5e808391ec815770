#pragma once
// What each instruction-set file gives; encoder_kernels.cpp puts the tables together.
// Those files are compiled for plain x86-64 up to their target macro (target.hpp), which stands after all includes: no inline
// function of a shared header may be emitted with instructions that another machine lacks.
#include "gpuhpc/kernels/encoder_kernels.hpp"

namespace gpuhpc::kernels {

void set_generic(EncoderKernels<float>& kernels);
void set_generic(EncoderKernels<BFloat16>& kernels);
void set_avx2(EncoderKernels<float>& kernels);
void set_avx512(EncoderKernels<float>& kernels);
void set_avx512_bf16(EncoderKernels<BFloat16>& kernels);
void set_amx(EncoderKernels<BFloat16>& kernels);

}  // namespace gpuhpc::kernels
