#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/plan/memory.hpp"

namespace gpuhpc {

// Section [plan]. What is 0 or empty is taken from the job's own options.
struct PlanOptions {
  static constexpr const char* section = "plan";
  std::string gpu = "auto";
  std::string job = "train-seq2seq";
  std::string model;
  std::int64_t global_batch = 0, length = 0, target_length = 0;
  std::int64_t ranks = 0;  // 0: those that were started
  std::int64_t candidates = 6;
  std::string json, config;
  std::string calibration;
  bool calibrate = false;

  PlanJob job_kind() const;
};
void declare(config::Section& section, PlanOptions& options);

}  // namespace gpuhpc
