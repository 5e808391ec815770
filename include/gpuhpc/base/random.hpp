#pragma once
// Counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011): the value depends on
// (seed, stream, counter) alone, so any rank can draw number k of any stream without drawing the
// ones before.
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuhpc {

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint64_t next() {
    if (used_ == 2) refill();
    return block_[used_++];
  }
  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound), bound > 0; without modulo bias.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
    std::uint64_t value = next();
    while (value >= limit) value = next();
    return value % bound;
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  void refill();
  std::uint64_t seed_, stream_, counter_ = 0;
  std::array<std::uint64_t, 2> block_{};
  std::size_t used_ = 2;
};

}  // namespace gpuhpc
