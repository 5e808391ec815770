// Products of 32 rows and one panel on AMX tiles: included inside the anonymous namespace of amx.cpp, after its target macro.

// Weights wanted next, fetched into the second-level cache a few lines at a time.
struct Fetcher {
  const std::byte* at;
  const std::byte* end;
  explicit Fetcher(const Prefetch& next) : at(next.from), end(next.from + next.bytes) {}
  void step() {
    if (at >= end) return;
    for (int i = 0; i < 4; ++i) _mm_prefetch(reinterpret_cast<const char*>(at + 64 * i), _MM_HINT_T1);
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

// Tiles 0-3 = start + 32 rows of a x one panel. A stays in the first-level cache over the panels; B streams past it.
// between.step(i) is called after the multiplications of the i-th 32 of k. (Functors, not lambdas: those do not get the target.)
template <typename Between>
inline void multiply(const BFloat16* a, std::int64_t stride, std::int64_t k_step, const BFloat16* b, std::int64_t k_count, Fetcher& fetcher,
                     const Between& between, const Start& start) {
  const std::int64_t stride_bytes = stride * 2;
  start_block(start);
  for (std::int64_t k = 0; k < k_count; k += 32, a += k_step, b += 1024) {
    _tile_stream_loadd(6, b, 64);
    _tile_loadd(4, a, stride_bytes);
    _tile_stream_loadd(7, b + 512, 64);
    _tile_loadd(5, a + 16 * stride, stride_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    fetcher.step();
    between.step(k / 32);
  }
}

inline void store_block(float* c, std::int64_t stride) {
  _tile_stored(0, c, stride * 4);
  _tile_stored(1, c + 16, stride * 4);
  _tile_stored(2, c + 16 * stride, stride * 4);
  _tile_stored(3, c + 16 * stride + 16, stride * 4);
}
