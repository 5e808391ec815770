// One answer on any number of ranks, and errors that all ranks share. Run on 1, 2 and 4 ranks.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/train/trainer.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

constexpr const char* strategies[] = {"ddp", "zero1"};

ParallelOptions of_small_buckets(const std::string& strategy) {
  ParallelOptions parallel;
  parallel.strategy = strategy;
  parallel.bucket_bytes = 512;
  return parallel;
}

// The task's loss fails on the last rank when `wrong` says so of a micro-batch.
void make_failing(TinyTask& task, const Communicator& comm,
                  std::function<void(const PackedIds&)> wrong) {
  task.compute = [&task, last = comm.rank() == comm.size() - 1, wrong = std::move(wrong)](
                     const PackedIds& batch, DropoutSeed seed) {
    if (last) wrong(batch);
    return task.plain(batch, seed);
  };
}

[[noreturn]] void run_out_of_memory() {
  throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
}

// R9: the last rank's loss is NaN in the third step; every rank skips it and goes on.
TEST(TrainerMpi, NanOnOneRankSkipsTheSameStepOnAll) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t calls = 0;
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    LossSum loss = task.plain(batch, seed);
    if (++calls == 3 && comm->rank() == comm->size() - 1)
      loss.sum = loss.sum.mul(std::numeric_limits<float>::quiet_NaN());
    return loss;
  };
  std::vector<std::int64_t> skipped;
  Trainer(task.arena, task, tiny_options(),
          {.comm = *comm,
           .report =
               [&](const StepReport& r) {
                 if (r.skipped) skipped.push_back(r.step);
               }})
      .run();
  EXPECT_EQ(skipped, std::vector<std::int64_t>{3});
  for (const float weight : task.weights()) ASSERT_TRUE(std::isfinite(weight));
}

TEST(TrainerMpi, SaysThatRanksShareAMicroBatch) {
  const auto comm = MpiSession::world();
  TinyTask task(96, comm->size());
  TrainOptions options = tiny_options();
  options.micro_batch = 24;
  const std::string line = Trainer(task.arena, task, options, {.comm = *comm}).describe(),
                    expected = comm->size() == 1
                                   ? "micro-batch 24 x"
                                   : fmt::format("micro-batch {} (not 24: ranks share the batch) x",
                                                 24 / comm->size());
  EXPECT_NE(line.find(expected), std::string::npos) << line;
}

TEST(TrainerMpi, AnErrorOnOneRankIsThrownOnAll) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t calls = 0;
  make_failing(task, *comm, [&](const PackedIds&) {
    if (++calls == 2) throw input_error("shard 7 is cut");
  });
  Trainer trainer(task.arena, task, tiny_options(), {.comm = *comm});
  try {
    trainer.run();
    FAIL() << "no error on rank " << comm->rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_STREQ(error.what(), "shard 7 is cut");
  }
}

TEST(TrainerMpi, DivergenceEndsAllRanksAtTheSameStep) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
    LossSum loss = task.plain(batch, seed);
    if (comm->is_root()) loss.sum = loss.sum.mul(std::numeric_limits<float>::infinity());
    return loss;
  };
  TrainOptions options = tiny_options();
  options.max_skipped = 2;
  std::int64_t steps = 0;
  Trainer trainer(task.arena, task, options,
                  {.comm = *comm, .report = [&](const StepReport&) { ++steps; }});
  EXPECT_THROW(trainer.run(), Error);
  EXPECT_EQ(steps, 3);
}

// R10: more than three documents at once do not fit on the last rank, and only from the fourth step
// on. The batch is computed again in smaller pieces: same losses, rates and weights as without.
TEST(TrainerMpi, OutOfMemoryOnOneRankShrinksTheMicroBatchOfAll) {
  const auto comm = MpiSession::world();
  for (const char* strategy : strategies) {
    TrainOptions options = tiny_options();
    options.micro_batch = 6;
    std::vector<StepReport> healed, clean;
    TinyTask task(240, comm->size()), other(240, comm->size());
    std::int64_t failures = 0;
    make_failing(task, *comm, [&](const PackedIds& batch) {
      if (healed.size() < 3 || batch.documents.size() <= 3) return;
      ++failures;
      run_out_of_memory();
    });
    Trainer(task.arena, task, options,
            {.comm = *comm,
             .parallel = of_small_buckets(strategy),
             .report = [&](const StepReport& r) { healed.push_back(r); }})
        .run();
    Trainer(other.arena, other, options,
            {.comm = *comm,
             .parallel = of_small_buckets(strategy),
             .report = [&](const StepReport& r) { clean.push_back(r); }})
        .run();
    EXPECT_EQ(failures, comm->rank() == comm->size() - 1 ? 1 : 0);  // one batch was computed twice
    ASSERT_EQ(healed.size(), clean.size());
    for (std::size_t i = 0; i < clean.size(); ++i) {
      EXPECT_NEAR(healed[i].loss, clean[i].loss, 1e-5);
      EXPECT_EQ(healed[i].learning_rate_multiplier, clean[i].learning_rate_multiplier);
      EXPECT_EQ(healed[i].documents, clean[i].documents);
      EXPECT_EQ(healed[i].micro_batch, i < 3 ? 6 : 3) << "step " << i + 1;
      EXPECT_FALSE(healed[i].skipped);
    }
    const std::vector<float> a = task.weights(), b = other.weights();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4);
  }
}

TEST(TrainerMpi, OneDocumentThatDoesNotFitEndsAllRanksWithTheWeightsOfTheLastUpdate) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t steps = 0;
  std::vector<float> last;
  make_failing(task, *comm, [&](const PackedIds&) {
    if (steps == 2) run_out_of_memory();
  });
  Trainer trainer(task.arena, task, tiny_options(),
                  {.comm = *comm, .report = [&](const StepReport&) {
                     ++steps;
                     last = task.weights();
                   }});
  try {
    trainer.run();
    FAIL() << "no error on rank " << comm->rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_TRUE(error.on_all_ranks());
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(task.weights(), last);
}

// --train.micro-batch auto: four documents fit on the last rank, the others could take any number.
// Which of 1, 2 and 4 is fastest is the machine's affair, but all ranks take the same one.
TEST(TrainerMpi, TheMicroBatchIsTriedAtTheStart) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  TrainOptions options = tiny_options();
  options.batch = 48;
  options.micro_batch = -1;
  bool training = false, refused = false;
  make_failing(task, *comm, [&](const PackedIds& batch) {
    if (batch.documents.size() <= 4) return;
    EXPECT_FALSE(training);
    refused = true;
    run_out_of_memory();
  });
  std::vector<std::int64_t> sizes;
  Trainer trainer(task.arena, task, options, {.comm = *comm, .report = [&](const StepReport& r) {
                                                training = true, sizes.push_back(r.micro_batch);
                                              }});
  trainer.run();
  EXPECT_EQ(refused, comm->rank() == comm->size() - 1);
  EXPECT_EQ(sizes, std::vector<std::int64_t>(10, comm->all_reduce_value(sizes.at(0), Reduce::max)));
  EXPECT_TRUE(sizes[0] == 1 || sizes[0] == 2 || sizes[0] == 4) << sizes[0];
  TinyTask tight(240, comm->size());
  make_failing(tight, *comm, [](const PackedIds&) { run_out_of_memory(); });
  Trainer hopeless(tight.arena, tight, options, {.comm = *comm});
  EXPECT_THROW(hopeless.run(), Error);
}

// What was foreseen is tried first, on all ranks alike, and nothing is taken on trust.
TEST(TrainerMpi, TrialsBeginWithWhatWasForeseen) {
  const auto comm = MpiSession::world();
  TrainOptions options = tiny_options();
  options.batch = 48, options.micro_batch = -1;
  for (const std::int64_t foreseen : {4, 2, 11}) {
    TinyTask task(240, comm->size());
    std::vector<std::size_t> tried;
    std::int64_t steps = 0, used = 0;
    make_failing(task, *comm, [&](const PackedIds& batch) {
      if (batch.documents.size() > 4) run_out_of_memory();
    });
    const auto inner = task.compute;
    task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
      if (steps == 0) tried.push_back(batch.documents.size());
      return inner(batch, seed);
    };
    // The last rank, whose memory decides, foresees the least.
    const bool last = comm->rank() == comm->size() - 1;
    Trainer trainer(task.arena, task, options,
                    {.comm = *comm,
                     .foreseen = {foreseen + (last ? 0 : 5), 4},
                     .report = [&](const StepReport& r) { ++steps, used = r.micro_batch; }});
    trainer.run();
    ASSERT_FALSE(tried.empty());
    EXPECT_EQ(tried.front(), foreseen);
    if (foreseen == 4) {  // right: an eighth more is tried, and that is all
      EXPECT_EQ(tried.at(1), 5U);
      EXPECT_LE(tried.at(2), 4U);
    }
    EXPECT_TRUE(used == 1 || used == 2 || used == 4) << used;
    EXPECT_EQ(steps, 10);
  }
}

// fp16: the last rank overflows in steps 2 and 3; every rank skips them and halves the scale, and
// doubles it after four good steps.
TEST(TrainerMpi, TheLossScaleIsTheSameOnAllRanks) {
  const auto comm = MpiSession::world();
  for (const char* strategy : strategies) {
    TinyTask task(240, comm->size());
    TrainOptions options = tiny_options();
    options.precision = "fp16";
    options.loss_scale = 1024;
    options.loss_scale_interval = 4;
    std::vector<double> scales;
    std::vector<bool> skipped;
    task.compute = [&](const PackedIds& batch, DropoutSeed seed) {
      LossSum loss = task.plain(batch, seed);
      const bool bad =
          comm->rank() == comm->size() - 1 && (scales.size() == 1 || scales.size() == 2);
      if (bad) loss.sum = loss.sum.mul(1e38);
      return loss;
    };
    Trainer trainer(
        task.arena, task, options,
        {.comm = *comm, .parallel = of_small_buckets(strategy), .report = [&](const StepReport& r) {
           scales.push_back(r.loss_scale), skipped.push_back(r.skipped);
         }});
    for (int step = 0; step < 9; ++step) trainer.step();
    EXPECT_EQ(scales, (std::vector<double>{1024, 1024, 512, 256, 256, 256, 256, 512, 512}));
    EXPECT_EQ(skipped,
              (std::vector<bool>{false, true, true, false, false, false, false, false, false}));
  }
}

// GPUs of two generations under --train.precision auto: their scaled gradients must not be added
// up.
TEST(TrainerMpi, RanksOfDifferentPrecisionsAreRefused) {
  const auto comm = MpiSession::world();
  EXPECT_NO_THROW(check_one_precision(*comm, Precision::fp16));
  if (comm->size() == 1) return;
  try {
    check_one_precision(*comm, comm->is_root() ? Precision::bf16 : Precision::fp16);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_TRUE(error.on_all_ranks());
    EXPECT_NE(std::string(error.what()).find("bf16 on some ranks of this run and fp16 on others"),
              std::string::npos)
        << error.what();
  }
}

TEST(TrainerMpi, OneRankThatIsToldToStopStopsAllAtTheSameStep) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::int64_t steps = 0;
  try {
    Trainer(task.arena, task, tiny_options(),
            {.comm = *comm,
             .stop_requested = [&] { return comm->rank() == comm->size() - 1 && steps >= 6; },
             .report = [&](const StepReport&) { ++steps; }})
        .run();
    FAIL() << "no error on rank " << comm->rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::requeue);
    EXPECT_TRUE(error.on_all_ranks());
  }
  EXPECT_EQ(steps, 7);
}

TEST(SlowRank, IsTheOneThatTakesLongerThanTheOthers) {
  EXPECT_FALSE(slow_rank(std::vector<double>{1}));
  EXPECT_FALSE(slow_rank(std::vector<double>{1, 1.1, .9, 1}));
  EXPECT_EQ(slow_rank(std::vector<double>{1, 2})->rank, 1U);
  const auto slow = slow_rank(std::vector<double>{3, 1, 1.5, 1});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 0U);
  EXPECT_EQ(slow->times, 3);
}

TEST(TrainerMpi, ARankThatWaitsForItsDataIsSlow) {
  const auto comm = MpiSession::world();
  std::ostringstream text;
  SlowRankWatch watch(*comm,
                      std::make_shared<spdlog::logger>(
                          "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)),
                      2);
  const bool last = comm->rank() == comm->size() - 1;
  for (int step = 0; step < 2; ++step)
    watch.after_step({.own_tokens = 10, .data_seconds = last ? .5 : 0, .compute_seconds = 1});
  EXPECT_EQ(text.str().find("takes 1.5 times as long") != std::string::npos,
            comm->is_root() && comm->size() > 1)
      << text.str();
}

// Each gradient bucket leaves within the backward pass or the sum, and comes back within the sum.
TEST(TrainerMpi, ATraceShowsEachBucket) {
  const auto comm = MpiSession::world();
  const ScratchFolder folder;
  TinyTask task(240, comm->size());
  ParallelOptions parallel;
  parallel.bucket_bytes = 1024;
  Trainer trainer(task.arena, task, tiny_options(),
                  {.comm = *comm,
                   .parallel = parallel,
                   .profile = {"2"},
                   .run_folder = folder / "",
                   .stage = "tiny"});
  trainer.run();
  const Json events = read_json(folder / fmt::format("trace/tiny/rank-{:05d}.json", comm->rank()))
                          .at("traceEvents");
  const auto named = [&](const std::string& name) {
    return std::ranges::count_if(events, [&](const Json& e) { return e.at("name") == name; });
  };
  ASSERT_GT(trainer.sync().buckets().size(), 2U);
  for (std::size_t b = 0; b < trainer.sync().buckets().size(); ++b) {
    EXPECT_EQ(named(fmt::format("send bucket {}", b)), comm->size() > 1 ? 1 : 0);
    EXPECT_EQ(named(fmt::format("receive bucket {}", b)), comm->size() > 1 ? 1 : 0);
  }
  EXPECT_EQ(named("sum"), 1);
  for (const Json& event : events) EXPECT_EQ(event.at("pid"), comm->rank());
}

TEST(TrainerMpi, ASlowRankIsNamed) {
  const auto comm = MpiSession::world();
  TinyTask task(240, comm->size());
  std::ostringstream text;
  const Log log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  make_failing(task, *comm, [](const PackedIds&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  Trainer(task.arena, task, tiny_options(), {.comm = *comm, .log = log}).run();
  const std::string wanted = fmt::format("rank {} on {} takes ", comm->size() - 1, comm->host());
  EXPECT_EQ(text.str().find(wanted) != std::string::npos, comm->is_root() && comm->size() > 1)
      << text.str();
}

TEST(TrainerMpi, AWarmupLongerThanTheTrainingIsSaid) {
  const auto comm = MpiSession::world();
  for (const double warmup : {3., 4.}) {
    TinyTask task(240, comm->size());
    std::ostringstream text;
    TrainOptions options = tiny_options();
    options.max_steps = 3;
    options.warmup = warmup;
    Trainer(task.arena, task, options,
            {.comm = *comm,
             .log = std::make_shared<spdlog::logger>(
                 "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text))})
        .run();
    EXPECT_EQ(text.str().find("longer than the 3 updates") != std::string::npos,
              comm->is_root() && warmup == 4)
        << text.str();
  }
}

}  // namespace
}  // namespace gpuhpc
