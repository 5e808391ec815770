#include <gpuhpc/app/signals.hpp>
#include <gpuhpc/base/error.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <new>

namespace gpuhpc {
namespace {

// As a destructor ends that lets an error out.
void end_by(const std::function<void()>& thrower) noexcept {
  end_in_words();
  thrower();
}

TEST(EndInWords, WhatNobodyCanCatchEndsWithItsSentenceAndExitCode) {
  EXPECT_EXIT(end_by([] { throw Error(ExitCode::diverged, "the ground is gone"); }),
              testing::ExitedWithCode(76), "gpuhpc: the ground is gone");
  EXPECT_EXIT(end_by([] { throw std::bad_alloc(); }), testing::ExitedWithCode(77),
              "gpuhpc: out of host memory");
  EXPECT_EXIT(end_by([] { throw 3; }), testing::ExitedWithCode(70), "gpuhpc: the program");
}

}  // namespace
}  // namespace gpuhpc
