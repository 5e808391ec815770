#include "gpuhpc/base/random.hpp"

namespace gpuhpc {

void RandomStream::refill() {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_),
                c1 = static_cast<std::uint32_t>(counter_ >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream_),
                c3 = static_cast<std::uint32_t>(stream_ >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed_),
                k1 = static_cast<std::uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0,
                        n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  block_ = {(std::uint64_t{c1} << 32) | c0, (std::uint64_t{c3} << 32) | c2};
  used_ = 0;
  ++counter_;
}

}  // namespace gpuhpc
