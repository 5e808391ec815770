#pragma once
// What a training phase says about itself (docs/watching.md). metrics.jsonl: a line per step and
// one per validation, as the run goes on; an event file for TensorBoard with the same values;
// ranks.jsonl and sentences of the log: where the time of each rank went, and which one is slow.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/io/event_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/context.hpp"

namespace gpuhpc {

class MetricsLog {
 public:
  // On rank 0. `lines`: metrics.jsonl; `events`: a folder for event files and nothing else. `model`
  // must outlive this object.
  MetricsLog(std::filesystem::path lines, std::filesystem::path events, const ParameterArena& model,
             const DeviceChoice& device, std::string host);
  // Before the first step: lines after step `done` go (0: all), and a new event file,
  // the only one that is not empty, starts with what is left. There the steps of an earlier start
  // lie one behind the other, the last one now: when they were is not in the lines.
  void begin(std::int64_t done);
  void step(const StepReport& report);
  // After that step: values by name, and Task::samples().
  void validation(std::int64_t step, std::int64_t epoch,
                  const std::vector<std::pair<std::string, double>>& values, const Json& samples);

 private:
  void add(const Json& line);
  std::filesystem::path lines_, events_;
  const ParameterArena& model_;
  DeviceChoice device_;
  std::string host_;
  std::optional<EventFile> file_;
  std::optional<GpuMeter> gpu_;  // where there is one
};

// ranks.jsonl: a line per rank. Collective.
void write_rank_times(const std::filesystem::path& path, const TrainSummary& summary,
                      const DeviceChoice& device, Communicator& comm);

// Names the rank that all others wait for. Under data parallel a step takes as long as its slowest
// rank, and the time that the others lose looks like communication; how long each rank took to the
// sum, for each of its tokens, tells who it was.

// The slowest of several, when it takes at least a fifth longer than the median of the others.
struct SlowRank {
  std::size_t rank = 0;
  double times = 1;  // as long as the others
};
std::optional<SlowRank> slow_rank(std::span<const double> seconds_a_token);

class SlowRankWatch {
 public:
  SlowRankWatch(Communicator& comm, Log log, std::int64_t window = 20);  // collective
  // After each step, on every rank. Compares the ranks at the end of each window of steps; rank 0
  // warns when another one is slow.
  void after_step(const StepReport& report);

 private:
  Communicator& comm_;
  Log log_;
  std::int64_t window_, steps_ = 0;
  double seconds_ = 0, tokens_ = 0;
  std::vector<std::string> hosts_;
  std::optional<std::size_t> named_;
};

// "data 1%, compute 84%, sums over ranks 10%, update 4%, other 1%"
std::string describe_times(const TrainSummary& summary);
// A sentence for waiting for data above 5% of the time, one for sums that no computing hides above
// 20%. Often none.
std::vector<std::string> time_advice(const TrainSummary& summary);

}  // namespace gpuhpc
