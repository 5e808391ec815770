#pragma once
// What each instruction-set file gives to training; training_kernels.cpp puts the tables together (see levels.hpp).
#include "gpuhpc/kernels/training_kernels.hpp"
#include "gpuhpc/kernels/training_packing.hpp"

namespace gpuhpc::kernels {

void set_generic(TrainingKernels<float>& kernels);
void set_generic(TrainingKernels<BFloat16>& kernels);
void set_avx2(TrainingKernels<float>& kernels);
void set_avx512(TrainingKernels<float>& kernels);
void set_avx512_bf16(TrainingKernels<BFloat16>& kernels);
void set_avx512_bf16(PackingKernels& kernels);
void set_amx(TrainingKernels<BFloat16>& kernels);

}  // namespace gpuhpc::kernels
