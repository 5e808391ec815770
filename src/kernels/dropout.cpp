#include "gpuhpc/kernels/dropout.hpp"

namespace gpuhpc::kernels {
namespace {

#include "dropout.inl"

}  // namespace

void draw_kept(const Dropout& dropout, std::int64_t first_block, std::span<std::uint32_t> bits) {
  std::uint64_t counter = dropout.first + static_cast<std::uint64_t>(8 * first_block);
  for (std::uint32_t& block : bits) {
    block = kept_bits(dropout, counter);
    counter += 8;
  }
}

}  // namespace gpuhpc::kernels
