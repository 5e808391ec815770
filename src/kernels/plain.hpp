#pragma once
// What the reference twins share: rounding to T and activations, one value at a time.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "gpuhpc/kernels/encoder_kernels.hpp"

namespace gpuhpc::kernels {

template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return to_bf16(value);
}

inline float activate(float x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return 0.5F * x * (1.0F + std::erf(x * 0.70710678F));
    case Activation::gelu_tanh:
      return 0.5F * x * (1.0F + std::tanh(0.79788456F * (x + 0.044715F * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0F);
  }
  return x;
}

}  // namespace gpuhpc::kernels
