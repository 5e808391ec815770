#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

// Runs `work`, which must throw an Error with this exit code; returns its message ("" otherwise).
inline std::string error_of(ExitCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace gpuhpc
