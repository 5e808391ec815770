#pragma once
// The random numbers of dropout on processors; private to room nn.
#include <ATen/core/Generator.h>

#include <optional>

#include "gpuhpc/kernels/training_kernels.hpp"

namespace gpuhpc {

// A dropout of its own with 64 bits of a seeded generator; of rate 0, one that drops nothing.
kernels::Dropout drawn_dropout(double rate, const std::optional<at::Generator>& generator);

}  // namespace gpuhpc
