#pragma once
// What the benches share that a script talks to.
#include <cstdio>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

// main(): run(arguments), an Error becomes its sentence and its exit code.
template <typename Run>
int answer(int argc, char** argv, const Run& run) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace gpuhpc
