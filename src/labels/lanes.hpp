#pragma once
// Four floats that the compiler keeps in one register on any machine: the lanes, and so the
// rounding, are the same everywhere. Private to the room.
namespace gpuhpc {

typedef float Lanes __attribute__((vector_size(16)));

inline Lanes load(const float* at) {
  Lanes lanes;
  __builtin_memcpy(&lanes, at, sizeof lanes);
  return lanes;
}

}  // namespace gpuhpc
