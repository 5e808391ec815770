#pragma once
// bfloat16: the upper half of a float. Rounded to nearest even, as the processor's own conversions
// do.
#include <cstdint>
#include <cstring>

namespace gpuhpc::kernels {

struct BFloat16 {
  std::uint16_t bits = 0;
};

inline float to_float(BFloat16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
inline float to_float(float value) { return value; }

inline BFloat16 to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U)
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // NaN stays NaN
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// Two bf16 that add up to a float but for 2^-18 of it (below 2^-117 the low one is lost to
// processors that know no subnormal bf16).
struct Bf16Halves {
  BFloat16 high, low;
};
inline Bf16Halves split(float value) {
  const BFloat16 high = to_bf16(value);
  return {high, to_bf16(value - to_float(high))};
}

}  // namespace gpuhpc::kernels
