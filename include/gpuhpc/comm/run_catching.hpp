#pragma once
// Any exception as an Error, with the exit code of the program.
#include <functional>
#include <optional>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

std::optional<Error> run_catching(const std::function<void()>& work);

}  // namespace gpuhpc
