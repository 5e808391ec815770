// R4: every system call that a save makes fails once, for every reason a disk has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "../io/failing_calls.hpp"
#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {
using failing_calls::faults;
using testing::HasSubstr;

class CheckpointFaults : public CheckpointFolder {};

TEST_F(CheckpointFaults, WhateverFailsTheOneBeforeLoads) {
  const auto comm = make_single_communicator();
  const auto save = [&](CheckpointStore& store, std::int64_t step) {
    Sample sample(step);
    store.start(sample.buffers(), sample.state());
    store.finish();
  };
  const auto load = [&] {
    Sample sample(0);
    const auto state = CheckpointStore(settings(), *comm, log_).load(sample.buffers());
    return state && sample.equals(Sample(state->step)) ? state->step : -1;
  };
  faults.folder = folder_.string();
  int failures = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int call = 1;; ++call) {
      std::filesystem::remove_all(folder_);
      CheckpointStore store(settings(), *comm, log_);
      save(store, 1);
      faults.left = call, faults.error = error;
      faults.on = true;
      bool failed = false;
      try {
        save(store, 2);
      } catch (const Error& e) {
        failed = true;
        EXPECT_EQ(e.code(), ExitCode::io) << e.what();
        EXPECT_TRUE(e.on_all_ranks());
        EXPECT_THAT(e.what(), HasSubstr("the checkpoint of step 2 failed: cannot"));
        EXPECT_THAT(e.what(), HasSubstr(folder_.string()));
      }
      faults.on = false;
      if (faults.left > 0) break;  // there is no such call any more
      EXPECT_TRUE(failed) << "call " << call;
      ++failures;
      // A manifest in its place is a whole checkpoint, even when the folder's own sync failed.
      const bool renamed = std::filesystem::exists(folder_ / "step-00000002/manifest.json");
      EXPECT_EQ(load(), renamed ? 2 : 1) << "call " << call;
      save(store, 3);
      EXPECT_EQ(load(), 3) << "after a failure the next save works";
    }
  }
  EXPECT_GT(failures, 3 * 10);
  std::printf("%d failing system calls of a save: the checkpoint before always loaded\n", failures);
}

}  // namespace
}  // namespace gpuhpc
