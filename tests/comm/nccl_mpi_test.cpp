// The logic of NcclCommunicator on the ranks of this launch, over a table that works in host
// memory.
#include "gpuhpc/comm/nccl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "nccl_double.hpp"

namespace gpuhpc {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Nccl : public testing::Test {
 protected:
  std::unique_ptr<Communicator> connect(std::int64_t timeout = 600) {
    ParallelOptions options;
    options.timeout = timeout;
    return make_nccl_communicator(*host_, double_.api(), options);
  }
  std::string failure_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::peer);
      return e.what();
    }
    return "nothing thrown";
  }
  std::unique_ptr<Communicator> host_ = MpiSession::world(), inner_ = MpiSession::world();
  NcclDouble double_{*inner_};
};

TEST_F(Nccl, ACollectiveRunsBetweenTwoEventsOnItsOwnStream) {
  const auto comm = connect();
  double_.forget_calls();
  std::vector<float> data(5, 1.0f);
  const auto work = comm->start_all_reduce(data.data(), 5, DataType::float32, Reduce::sum);
  EXPECT_THAT(double_.calls(),
              ElementsAre("record on compute", "own waits", "all_reduce 5", "record on own"));
  work->wait();
  EXPECT_EQ(double_.calls().back(), "compute waits");
  EXPECT_EQ(data, std::vector<float>(5, static_cast<float>(comm->size())));
}
TEST_F(Nccl, NothingIsLaunchedForEmptyBuffers) {
  const auto comm = connect();
  double_.forget_calls();
  comm->all_reduce(nullptr, 0, DataType::float32, Reduce::sum);
  EXPECT_THAT(double_.calls(), ElementsAre("record on own", "compute waits"));
}
TEST_F(Nccl, RaggedGathersAreOneGroupOfBroadcasts) {
  const auto comm = connect();
  double_.forget_calls();
  std::vector<std::int64_t> counts;
  std::vector<float> expected;
  for (int r = 0; r < comm->size(); ++r) {
    counts.push_back(r == 0 ? 0 : r + 1);  // rank 0 has none
    expected.insert(expected.end(), static_cast<std::size_t>(counts.back()), static_cast<float>(r));
  }
  const std::vector<float> mine(
      static_cast<std::size_t>(counts[static_cast<std::size_t>(comm->rank())]),
      static_cast<float>(comm->rank()));
  std::vector<float> all(expected.size());
  comm->all_gather_ragged(mine.data(), std::ssize(mine), DataType::float32, all.data(), counts);
  EXPECT_EQ(all, expected);
  if (comm->size() == 1) return;
  std::vector<std::string> calls = {"record on compute", "own waits", "group_start"};
  for (int r = 1; r < comm->size(); ++r)
    calls.push_back("broadcast " + std::to_string(r + 1) + " from " + std::to_string(r));
  for (const char* last : {"group_end", "record on own", "compute waits"}) calls.emplace_back(last);
  EXPECT_EQ(double_.calls(), calls);
}
TEST_F(Nccl, SeveralGathersAreOneGroup) {
  const auto comm = connect();
  double_.forget_calls();
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::vector<float> first(2, static_cast<float>(comm->rank())), second(3, 7.0f);
  std::vector<float> firsts(2 * ranks), seconds(3 * ranks);
  const std::vector<Communicator::Gather> gathers{{first.data(), 2, firsts.data()},
                                                  {second.data(), 3, seconds.data()}};
  comm->start_all_gathers(gathers, DataType::float32)->wait();
  EXPECT_THAT(double_.calls(),
              ElementsAre("record on compute", "own waits", "group_start", "all_gather 2",
                          "all_gather 3", "group_end", "record on own", "compute waits"));
  for (std::size_t i = 0; i < firsts.size(); ++i) EXPECT_EQ(firsts[i], static_cast<float>(i / 2));
  EXPECT_EQ(seconds, std::vector<float>(3 * ranks, 7.0f));
}
TEST_F(Nccl, EverythingIsGivenBack) {
  {
    const auto comm = connect();
    std::vector<float> data(3);
    comm->start_all_reduce(data.data(), 3, DataType::float32,
                           Reduce::sum);  // dropped, not waited for
  }
  EXPECT_EQ(double_.alive(), 0);
  const auto calls = double_.calls();
  EXPECT_EQ(calls[calls.size() - 2], "finalize");
  EXPECT_EQ(calls.back(), "destroy");
}
// Its memory is gone, whatever it answers.
TEST_F(Nccl, WhatWasDestroyedWithAnErrorIsNotAborted) {
  double_.refuse_to_destroy();
  connect();
  EXPECT_EQ(double_.alive(), 0);
  EXPECT_THAT(double_.calls(), Contains("destroy").Times(1));
  EXPECT_THAT(double_.calls(), Not(Contains("abort")));
}
TEST_F(Nccl, ARankWithoutAnIdStopsAllRanks) {
  if (host_->is_root()) double_.refuse_id();
  EXPECT_THAT(failure_of([&] { connect(); }),
              HasSubstr("making the id of the NCCL communicator failed: system error 2"));
  EXPECT_EQ(double_.alive(), 0);
}
// A rank that had connected when another could not gives everything back.
TEST_F(Nccl, ARankThatCannotConnectStopsAllRanks) {
  if (host_->rank() == host_->size() - 1) double_.refuse_to_connect();
  EXPECT_THAT(failure_of([&] { connect(); }),
              HasSubstr("connecting the ranks by NCCL (each needs a GPU of its own) failed"));
  EXPECT_EQ(double_.alive(), 0);
  EXPECT_EQ(double_.aborted(), host_->rank() != host_->size() - 1);
}
// What fails when wait() has only ordered the streams is told by check(), before results are used.
TEST_F(Nccl, AFailureBehindWaitIsToldByTheCheck) {
  const auto comm = connect();
  std::vector<float> data(4, 1.0f);
  comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
  comm->check();
  double_.break_network();
  EXPECT_THAT(failure_of([&] { comm->check(); }),
              HasSubstr("NCCL failed: remote process exited; NCCL_DEBUG=WARN tells more"));
  EXPECT_TRUE(double_.aborted());
  EXPECT_THAT(failure_of([&] { comm->check(); }), HasSubstr("remote process exited"));
}
// An error of the device travels up, and what was under way is dropped without another.
TEST_F(Nccl, WorkIsDroppedOnADeviceThatFailed) {
  const auto comm = connect();
  std::vector<float> data(4, 1.0f);
  auto work = comm->start_all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
  double_.break_device();
  work.reset();
  double_.break_device(false);
  comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum);  // the first has ended, too
}
// The watch finds an error while the communicator is given back: what was aborted is not ended,
// too.
TEST_F(Nccl, AFailureFoundAtTheEndAbortsAndNoMore) {
  if (host_->size() == 1) return;  // alone a collective ends before anybody looks
  std::vector<float> data(4, 1.0f);
  auto comm = connect();
  if (comm->rank() != 1) {
    double_.take_time_to_tell(std::chrono::milliseconds(200));
    auto work = comm->start_all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
    double_.break_network();
    while (!double_.telling()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    double_.break_device();  // or dropping the work would wait for its end
    work.reset();
    std::thread end([&] { comm.reset(); });
    host_->barrier();
    end.join();
    EXPECT_THAT(double_.calls(), Contains("abort").Times(1));
    EXPECT_THAT(double_.calls(), Not(Contains("finalize")));
    EXPECT_EQ(double_.alive(), 0);
    return;
  }
  host_->barrier();
  comm->all_reduce(data.data(), 4, DataType::float32,
                   Reduce::sum);  // frees the others' stream threads
}
TEST_F(Nccl, AnErrorOfTheNetworkAbortsAndIsThrownFromThenOn) {
  if (host_->size() == 1) return;  // alone a collective ends before anybody looks
  std::vector<float> data(4,
                          1.0f);  // outlives the stream threads, which here finish what was aborted
  const auto comm = connect();
  std::unique_ptr<Work> work;
  if (comm->rank() != 1) {
    work = comm->start_all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
    double_.break_network();
    EXPECT_THAT(
        failure_of([&] { work->wait(); }),
        HasSubstr("NCCL failed in all_reduce number 1 (4 float32, sum): remote process exited"));
    EXPECT_THAT(
        failure_of([&] { comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum); }),
        HasSubstr("remote process exited"));
    EXPECT_TRUE(double_.aborted());
  }
  host_->barrier();
  if (comm->rank() == 1)
    comm->all_reduce(data.data(), 4, DataType::float32,
                     Reduce::sum);  // frees the others' stream threads
}
TEST_F(Nccl, ATimeOutNamesTheRankThatHasNotEntered) {
  if (host_->size() == 1) return;
  std::vector<float> data(4, 1.0f);
  const auto comm = connect(1);
  comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
  if (comm->rank() != 1) {
    const std::string sentence =
        failure_of([&] { comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum); });
    EXPECT_THAT(sentence, HasSubstr("in all_reduce number 2 (4 float32, sum) for rank 1 on " +
                                    host_->host()));
    EXPECT_THAT(
        sentence,
        HasSubstr("alive but has not entered it (its last: all_reduce number 1 (4 float32, sum))"));
    EXPECT_TRUE(double_.aborted());
  }
  host_->barrier();
  if (comm->rank() == 1) comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
}
TEST_F(Nccl, CheckedCollectivesNameBothCalls) {
  if (host_->size() == 1) return;
  const auto comm = connect();
  ParallelOptions options;
  options.check_collectives = true;
  comm->configure(options);
  std::vector<float> data(4, 1.0f);
  const std::string sentence = failure_of([&] {
    if (comm->rank() == 1)
      comm->broadcast(data.data(), 3, DataType::float32, 0);
    else
      comm->all_reduce(data.data(), 4, DataType::float32, Reduce::sum);
  });
  EXPECT_THAT(sentence,
              HasSubstr("calls all_reduce number 1 (4 float32, sum) but rank 1 on " +
                        host_->host() + " calls broadcast number 1 (3 float32 from rank 0)"));
}

}  // namespace
}  // namespace gpuhpc
