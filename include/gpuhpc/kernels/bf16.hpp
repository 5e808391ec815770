#pragma once
// bfloat16: the upper half of a float. Rounded to nearest even, as the processor's own conversions do.
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
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // NaN stays NaN
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace gpuhpc::kernels
