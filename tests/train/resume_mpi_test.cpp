// R2, R3, R13: stopped by one rank, resumed by any number of ranks under any strategy. Run on 1, 2
// and 4 ranks.
#include "gpuhpc/comm/mpi.hpp"
#include "resume_fixture.hpp"

namespace gpuhpc {
namespace {

class ResumeMpi : public Resume {
 protected:
  ResumeMpi() {
    folder_ = world_->broadcast_string(folder_.string());
    owner_ = world_->is_root();
  }
  ~ResumeMpi() override { world_->barrier(); }
  const std::unique_ptr<Communicator> world_ = MpiSession::world(),
                                      alone_ = make_single_communicator();
};

// One rank is asked, another one each time; all stop at that step.
TEST_F(ResumeMpi, StoppedManyTimesByOneRankItEndsWithTheSameBits) {
  for (const std::string strategy : {"ddp", "zero1"}) {
    clear(*world_);
    const Outcome whole = start(*world_, strategy);
    clear(*world_);
    int starts = 0;
    for (std::int64_t stop = 1; stop < 100; stop += 3 + starts % 5, ++starts) {
      const Outcome part = start(*world_, strategy, stop, starts % world_->size());
      ASSERT_TRUE(part.stopped);
      ASSERT_EQ(part.resumed_after + part.steps, stop);
    }
    const Outcome rest = start(*world_, strategy);
    EXPECT_EQ(rest.weights, whole.weights) << strategy;
    EXPECT_EQ(rest.losses, whole.losses) << strategy;
  }
}

TEST_F(ResumeMpi, AllRanksGetTheWeightsOfTheBestEpoch) {
  restore_best_ = true;
  for (const std::string strategy : {"ddp", "zero1"}) {
    clear(*world_);
    ASSERT_TRUE(start(*world_, strategy, 23).stopped);
    const std::vector<float> best = weights_of_step_20_;
    EXPECT_EQ(start(*world_, strategy).weights, best) << strategy;
  }
}

// The last rank's part cannot be written: no rank goes on.
TEST_F(ResumeMpi, ASaveThatFailsOnOneRankEndsAll) {
  clear(*world_);
  options_.checkpoint_every = 20;
  after_step_ = [&](std::int64_t step) {
    if (step != 19 || !world_->is_root()) return;
    std::filesystem::create_directories(
        folder_ / "step-00000020" /
        fmt::format("part-{:05d}-of-{:05d}.bin", world_->size() - 1, world_->size()));
  };
  try {
    start(*world_);
    FAIL() << "no error on rank " << world_->rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_TRUE(error.on_all_ranks());
  }
  after_step_ = {};
}

// Stated tolerance: every loss within 1e-5, final weights within 1e-4.
TEST_F(ResumeMpi, OnOtherRanksAndUnderAnotherStrategyTheLossesAreThoseOfOneRun) {
  clear(*world_);
  const Outcome whole = start(*world_);
  clear(*world_);
  ASSERT_TRUE(start(*world_, "zero1", 23).stopped);
  world_->barrier();
  if (world_->is_root()) {
    EXPECT_EQ(start(*alone_, "ddp", 50).resumed_after, 23);
  }
  world_->barrier();
  ASSERT_EQ(start(*world_, "ddp", 77).resumed_after, 50);
  const Outcome rest = start(*world_, "zero1");
  ASSERT_EQ(rest.resumed_after, 77);
  ASSERT_EQ(rest.losses.size(), whole.losses.size());
  double loss = 0, weight = 0;
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    loss = std::max(loss, std::abs(rest.losses[i] - whole.losses[i]));
  for (std::size_t i = 0; i < whole.weights.size(); ++i)
    weight = std::max<double>(weight, std::abs(rest.weights[i] - whole.weights[i]));
  EXPECT_LT(loss, 1e-5);
  EXPECT_LT(weight, 1e-4);
  if (world_->is_root())
    std::printf(
        "%d ranks zero1, 1 rank, %d ranks ddp, zero1: largest difference of a loss %.1e, of a "
        "weight %.1e\n",
        world_->size(), world_->size(), loss, weight);
}

}  // namespace
}  // namespace gpuhpc
