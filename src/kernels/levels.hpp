#pragma once
// What each instruction-set file gives, and the tables put together from it.
// Those files are compiled for plain x86-64 up to their target macro (target.hpp), which stands
// after all includes: no inline function of a shared header may be emitted with instructions that
// another machine lacks.
#include "gpuhpc/kernels/decoder_kernels.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/kernels/training_kernels.hpp"

namespace gpuhpc::kernels {

void set_generic(EncoderKernels<float>& kernels);
void set_generic(EncoderKernels<BFloat16>& kernels);
void set_generic(EncoderKernels<float, SplitBFloat16>& kernels);
void set_generic(EncoderKernels<BFloat16, Int8>& kernels);
void set_avx2(EncoderKernels<float>& kernels);
void set_avx512(EncoderKernels<float>& kernels);
void set_avx512_bf16(EncoderKernels<BFloat16>& kernels);
void set_widened_attention(EncoderKernels<BFloat16>& kernels);  // attention alone, in fp32
void set_amx(EncoderKernels<BFloat16>& kernels);
void set_amx(EncoderKernels<float, SplitBFloat16>& kernels);    // but attention
void set_avx512_bf16(EncoderKernels<BFloat16, Int8>& kernels);  // but attention
void set_amx(EncoderKernels<BFloat16, Int8>& kernels);          // but attention

void set_generic(TrainingKernels<float>& kernels);
void set_generic(TrainingKernels<BFloat16>& kernels);
void set_avx2(TrainingKernels<float>& kernels);
void set_avx512(TrainingKernels<float>& kernels);
void set_avx512_bf16(TrainingKernels<BFloat16>& kernels);
void set_amx(TrainingKernels<BFloat16>& kernels);

void set_generic(PackingKernels<float>& kernels);
void set_generic(PackingKernels<BFloat16>& kernels);
void set_avx2(PackingKernels<float>& kernels);
void set_avx512(PackingKernels<float>& kernels);
void set_avx512_bf16(PackingKernels<BFloat16>& kernels);

void set_generic(DecoderKernels<float>& kernels);
void set_generic(DecoderKernels<BFloat16>& kernels);
void set_avx2(DecoderKernels<float>& kernels);
void set_avx512(DecoderKernels<float>& kernels);
void set_avx512_bf16(DecoderKernels<BFloat16>& kernels);
void set_generic(WordKernels& kernels);
void set_avx2(WordKernels& kernels);
void set_avx512(WordKernels& kernels);

// Calls work.operator()<A>() where A is `activation`, so that a kernel knows it when it is
// compiled.
template <typename Work>
void with_activation(Activation activation, const Work& work) {
  switch (activation) {
    case Activation::none:
      return work.template operator()<Activation::none>();
    case Activation::gelu:
      return work.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return work.template operator()<Activation::gelu_tanh>();
    case Activation::relu:
      return work.template operator()<Activation::relu>();
  }
}

// The best of each kernel up to `isa`, from the levels that have kernels of this type.
template <typename Table>
Table best_table(Isa isa) {
  require(isa);
  Table kernels;
  set_generic(kernels);
  if constexpr (requires { set_avx2(kernels); }) {
    if (isa >= Isa::avx2) set_avx2(kernels);
    if (isa >= Isa::avx512) set_avx512(kernels);
  } else {
    if (isa >= Isa::avx512_bf16) set_avx512_bf16(kernels);
    if constexpr (requires { set_amx(kernels); })
      if (isa >= Isa::amx) set_amx(kernels);
  }
  return kernels;
}

}  // namespace gpuhpc::kernels
