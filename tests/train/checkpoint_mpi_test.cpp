// Checkpoints by several ranks: what any number of them wrote, any number reads. Run on 1, 2 and 4
// ranks.
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"

namespace gpuhpc {
namespace {

// Shares as a sharded optimizer cuts them: in each of three buckets every rank owns an equal part.
std::vector<Range> shares(std::int64_t capacity, int rank, int size) {
  std::vector<Range> ranges;
  for (std::int64_t bucket = 0; bucket < 3; ++bucket) {
    const std::int64_t first = capacity * bucket / 3 / size * size,
                       last = bucket == 2 ? capacity : capacity * (bucket + 1) / 3 / size * size;
    const Range mine = blocks_of_rank(last - first, rank, size);
    ranges.push_back({first + mine.first, first + mine.last});
  }
  return ranges;
}

class CheckpointMpi : public CheckpointFolder {
 protected:
  CheckpointMpi() {
    folder_ = world_->broadcast_string(folder_.string());
    owner_ = world_->is_root();
  }
  ~CheckpointMpi() override { world_->barrier(); }
  static Sample sample(std::int64_t number, const Communicator& comm, bool sharded) {
    const std::int64_t capacity = Sample(0, 1200, comm.size()).arena().capacity();
    return Sample(number, 1200, comm.size(),
                  sharded ? shares(capacity, comm.rank(), comm.size()) : std::vector<Range>{});
  }
  void save(std::int64_t step, Communicator& comm, bool sharded) {
    CheckpointStore store(settings(), comm, log_);
    Sample written = sample(step, comm, sharded);
    store.start(written.buffers(), written.state());
    store.finish();
  }
  std::int64_t load(Communicator& comm, bool sharded) {
    Sample read = sample(0, comm, sharded);
    const auto state = CheckpointStore(settings(), comm, log_).load(read.buffers());
    if (!state) return -1;
    EXPECT_TRUE(read.equals(sample(state->step, comm, sharded)));
    EXPECT_EQ(state->values, sample(state->step, comm, sharded).state().values);
    return state->step;
  }
  const std::unique_ptr<Communicator> world_ = MpiSession::world();
};

TEST_F(CheckpointMpi, AnyRanksAndStrategyLoadWhatOthersWrote) {
  const auto alone = make_single_communicator();
  std::int64_t step = 0;
  for (const bool sharded : {false, true}) {
    save(++step, *world_, sharded);
    for (const bool into : {false, true}) {
      EXPECT_EQ(load(*world_, into), step);
      if (world_->is_root()) {
        EXPECT_EQ(load(*alone, into), step);
      }
      world_->barrier();
    }
    if (world_->is_root()) save(++step, *alone, sharded);
    world_->broadcast(std::span(&step, 1));
    for (const bool into : {false, true}) EXPECT_EQ(load(*world_, into), step);
  }
}

// One rank's part is damaged: all ranks pass the checkpoint over together.
TEST_F(CheckpointMpi, ADamagedPartOfOneRankIsSeenByAll) {
  save(1, *world_, true);
  save(2, *world_, true);
  const int last = world_->size() - 1;
  if (world_->is_root())
    flip(folder_ / "step-00000002" / fmt::format("part-{:05d}-of-{:05d}.bin", last, world_->size()),
         8 * 4000);
  world_->barrier();
  EXPECT_EQ(load(*world_, false), 1);
}

// One rank cannot write (its part's name is taken by a folder): all ranks get the error, the one
// before loads.
TEST_F(CheckpointMpi, AFailureOfOneRankIsThrownOnAll) {
  save(1, *world_, false);
  if (world_->is_root())
    std::filesystem::create_directories(
        folder_ / "step-00000002" /
        fmt::format("part-{:05d}-of-{:05d}.bin", world_->size() - 1, world_->size()));
  world_->barrier();
  try {
    save(2, *world_, false);
    FAIL() << "rank " << world_->rank() << " did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_TRUE(error.on_all_ranks());
  }
  EXPECT_EQ(load(*world_, false), 1);
}

}  // namespace
}  // namespace gpuhpc
