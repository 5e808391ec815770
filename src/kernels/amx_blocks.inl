#pragma once
// Blocks of 32 x 32 sums on AMX tiles: included inside the anonymous namespace of a file that
// multiplies with them, after its target macro. Tiles 0-3 hold the sums, 4 and 5 rows of A, 6 and 7
// of B.
#include "avx512_vector.inl"
#include "simd_math.inl"

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  const TileConfiguration configuration;
  asm volatile(
      "" ::"r"(&configuration)
      : "memory");  // all of it must be in memory: the intrinsic names its first 8 bytes only
  _tile_loadconfig(&configuration);
}
void end() { _tile_release(); }

// Tile loads are invisible to the compiler: what was stored by vectors must have been stored before
// them.
inline void stored_before_tiles() { asm volatile("" ::: "memory"); }

// Weights wanted next, fetched into the second-level cache a few lines at a time.
struct Fetcher {
  const std::byte* at;
  const std::byte* end;
  explicit Fetcher(const Prefetch& next) : at(next.from), end(next.from + next.bytes) {}
  void step() {
    if (at >= end) return;
    for (int i = 0; i < 4; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(at + 64 * i), _MM_HINT_T1);
    at += 256;
  }
};

// What tiles 0-3 begin with: zeros, or a block of 32 x 32 floats.
struct Start {
  const float* block = nullptr;
  std::int64_t stride = 0;
};

inline void start_block(const Start& start) {
  if (start.block == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  const std::int64_t bytes = start.stride * 4;
  _tile_loadd(0, start.block, bytes);
  _tile_loadd(1, start.block + 16, bytes);
  _tile_loadd(2, start.block + 16 * start.stride, bytes);
  _tile_loadd(3, start.block + 16 * start.stride + 16, bytes);
}

template <typename Number>  // float or std::int32_t
inline void store_block(Number* c, std::int64_t stride) {
  _tile_stored(0, c, stride * 4);
  _tile_stored(1, c + 16, stride * 4);
  _tile_stored(2, c + 16 * stride, stride * 4);
  _tile_stored(3, c + 16 * stride + 16, stride * 4);
}
