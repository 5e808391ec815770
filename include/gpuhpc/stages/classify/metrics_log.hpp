#pragma once
// metrics.jsonl: one line a training step and one a validation, written by the root as the run goes on.
#include <filesystem>
#include <functional>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

class MetricsLog {
 public:
  MetricsLog(std::filesystem::path path, const Communicator& comm) : path_(std::move(path)), root_(comm.rank() == 0) {}
  std::function<void(const StepReport&)> hook() const;
  void validation(std::int64_t step, std::int64_t epoch, double loss) const;  // after that step

 private:
  std::filesystem::path path_;
  bool root_;
};

}  // namespace gpuhpc
