#pragma once
// Which elements a dropout keeps, for code outside the layers' kernels.
#include <cstdint>
#include <span>

#include "gpuhpc/kernels/training_kernels.hpp"

namespace gpuhpc::kernels {

// Bit i of bits[b] is set where element 32 (first_block + b) + i stays.
void draw_kept(const Dropout& dropout, std::int64_t first_block, std::span<std::uint32_t> bits);

}  // namespace gpuhpc::kernels
