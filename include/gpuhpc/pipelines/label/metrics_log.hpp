#pragma once
// What a training phase says about itself (docs/watching.md). metrics.jsonl: a line a step and one
// a validation, as the run goes on; an event file for TensorBoard with the same values;
// ranks.jsonl: where the time of each rank went.
#include <filesystem>
#include <optional>
#include <string>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/io/event_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// Rank 0 alone writes; on the others nothing happens.
class MetricsLog {
 public:
  // `lines`: metrics.jsonl; `events`: a folder for event files and nothing else. `model` and `comm`
  // must outlive this object.
  MetricsLog(std::filesystem::path lines, std::filesystem::path events, const ParameterArena& model,
             const DeviceChoice& device, const Communicator& comm);
  // On rank 0, before the first step: lines after step `done` go (0: all), and a new event file,
  // the only one that is not empty, starts with what is left. There the steps of an earlier start
  // lie one behind the other, the last one now: when they were is not in the lines.
  void begin(std::int64_t done);
  void step(const StepReport& report);
  void validation(std::int64_t step, std::int64_t epoch, double loss);  // after that step

 private:
  void add(const Json& line);
  std::filesystem::path lines_, events_;
  const ParameterArena& model_;
  DeviceChoice device_;
  bool root_;
  std::string host_;
  std::optional<EventFile> file_;
  std::optional<GpuMeter> gpu_;  // where there is one
};

// ranks.jsonl: a line a rank. Collective.
void write_rank_times(const std::filesystem::path& path, const TrainSummary& summary,
                      const DeviceChoice& device, Communicator& comm);

}  // namespace gpuhpc
