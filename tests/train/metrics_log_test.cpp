#include "gpuhpc/train/watch.hpp"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../io/event_reader.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/lines.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

using ::testing::UnorderedElementsAre;

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::vector<Json> lines;
  LineReader reader(path);
  for (std::string line; reader.next(line);) lines.push_back(parse_json(line, reader.where()));
  return lines;
}

StepReport report(std::int64_t step) {
  return {.step = step,
          .loss = 10. - static_cast<double>(step),
          .gradient_norm = 2,
          .learning_rate_multiplier = .5,
          .documents = 24,
          .tokens = 480,
          .tokens_per_second = 1200,
          .own_tokens = 480,
          .step_seconds = .4,
          .data_seconds = .1,
          .compute_seconds = .15,
          .exposed_communication_seconds = .05,
          .update_seconds = .1};
}

struct Watched {
  Watched() : log(lines, events, task.arena, {}, comm->host()) {}
  const ScratchFolder folder;
  const std::filesystem::path lines = folder / "checkpoints/metrics.jsonl",
                              events = folder / "events";
  TinyTask task{10};
  const std::unique_ptr<Communicator> comm = make_single_communicator();
  MetricsLog log;
};

TEST(MetricsLog, WritesALineAndAnEventAStep) {
  limit_host_memory(0);  // tensors are counted from here on
  const at::Tensor held = at::zeros({300'000});
  Watched watched;
  watched.log.begin(0);
  watched.log.step(report(1));
  StepReport skipped = report(2);
  skipped.loss = skipped.gradient_norm = std::nan("");
  skipped.skipped = true;
  watched.log.step(skipped);
  watched.log.validation(2, 0, {{"loss", 1.25}}, Json::array({"a text"}));
  const std::vector<Json> lines = lines_of(watched.lines);
  ASSERT_EQ(lines.size(), 3U);
  std::vector<std::string> keys;
  for (const auto& [key, value] : lines[0].items()) keys.push_back(key);
  EXPECT_THAT(
      keys, UnorderedElementsAre("step", "epoch", "loss", "gradient_norm",
                                 "learning_rate_multiplier", "learning_rates", "skipped",
                                 "documents", "tokens", "tokens_per_second", "micro_batch",
                                 "loss_scale", "step_seconds", "data_seconds", "compute_seconds",
                                 "exposed_communication_seconds", "update_seconds", "host_memory"));
  EXPECT_EQ(lines[0].at("learning_rates"), (Json{{"model", 5e-3}, {"model.no-decay", 5e-3}}));
  EXPECT_GE(lines[0].at("host_memory").get<double>(), 4 * 300'000);
  EXPECT_TRUE(lines[1].at("loss").is_null());
  EXPECT_EQ(lines[2], (Json{{"step", 2},
                            {"epoch", 0},
                            {"validation_loss", 1.25},
                            {"samples", Json::array({"a text"})}}));

  const std::vector<ReadEvent> events = read_events(event_file(watched.events));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[2].step, 1);
  EXPECT_EQ(
      events[2].scalars,
      (std::map<std::string, float>{
          {"train/loss", 9},
          {"train/gradient_norm", 2},
          {"learning_rate/model", 5e-3F},
          {"learning_rate/model.no-decay", 5e-3F},
          {"speed/tokens_per_second", 1200},
          {"speed/data_wait_percent", 25},
          {"speed/exposed_communication_percent", 12.5},
          {"memory/host_bytes", static_cast<float>(lines[0].at("host_memory").get<double>())}}));
  EXPECT_TRUE(std::isnan(events[3].scalars.at("train/loss")));
  EXPECT_EQ(events[4].scalars, (std::map<std::string, float>{{"validation/loss", 1.25F}}));
}

// Killed after step 5, with half a record in the file; the newest checkpoint is that of step 3.
TEST(MetricsLog, ARunThatGoesOnIsOneCurve) {
  Watched killed;
  killed.log.begin(0);
  for (int step = 1; step <= 5; ++step) killed.log.step(report(step));
  std::ofstream(event_file(killed.events), std::ios::app) << "half a rec";
  const std::filesystem::path older = killed.events / "events.out.tfevents.1.other.1",
                              oldest = killed.events / "events.out.tfevents.0.other.1";
  std::ofstream(older, std::ios::binary) << "an older one";
  std::ofstream(oldest, std::ios::binary) << "";
  MetricsLog log(killed.lines, killed.events, killed.task.arena, {}, killed.comm->host());
  log.begin(3);
  for (int step = 4; step <= 6; ++step) log.step(report(step));
  const std::vector<ReadEvent> events = read_events(event_file(killed.events));
  ASSERT_EQ(events.size(), 8U);
  EXPECT_EQ(std::filesystem::file_size(older), 0U);
  EXPECT_FALSE(std::filesystem::exists(oldest));
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 0);
  std::vector<std::int64_t> steps, lines;
  for (std::size_t i = 2; i < events.size(); ++i) {
    steps.push_back(events[i].step);
    EXPECT_GE(events[i].wall_time, events[i - 1].wall_time);
    EXPECT_EQ(events[i].scalars.at("train/loss"), 10 - static_cast<float>(events[i].step));
  }
  EXPECT_NEAR(events[3].wall_time - events[2].wall_time, .4, 1e-6);
  for (const Json& line : lines_of(killed.lines)) lines.push_back(line.at("step"));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(lines, steps);
}

TEST(RankTimes, HoldWhatAddsUp) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  TrainSummary summary;
  summary.own_steps = 7, summary.own_tokens = 700;
  summary.data_seconds = 1, summary.compute_seconds = 2, summary.exposed_communication_seconds = 3,
  summary.update_seconds = 4, summary.other_seconds = 5, summary.seconds = 15;
  write_rank_times(folder / "ranks.jsonl", summary, {}, *comm);
  std::vector<Json> lines = lines_of(folder / "ranks.jsonl");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_GT(lines[0].at("peak_memory").get<double>(), 1e6);
  lines[0].erase("peak_memory");
  EXPECT_EQ(lines[0], (Json{{"rank", 0},
                            {"host", comm->host()},
                            {"device", "cpu, 1 thread"},
                            {"steps", 7},
                            {"tokens", 700},
                            {"data_seconds", 1.},
                            {"compute_seconds", 2.},
                            {"exposed_communication_seconds", 3.},
                            {"update_seconds", 4.},
                            {"other_seconds", 5.},
                            {"wall_seconds", 15.}}));
}

}  // namespace
}  // namespace gpuhpc
