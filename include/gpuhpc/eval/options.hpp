#pragma once
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

// [eval]
struct EvalOptions {
  static constexpr const char* section = "eval";
  std::string predictions{};  // submission.csv or predictions.jsonl; empty: those of the run
  std::string gold{};         // doc2labels.txt; empty: the one of the input folder, if any
  std::int64_t bootstrap_samples = 1000;  // 0: no intervals
  std::int64_t seed = 1;                  // of the resamples
  std::int64_t examples = 20;             // documents shown in the report
};

// [output]
struct SubmissionOptions {
  static constexpr const char* section = "output";
  std::string header = "pid,labels";  // the two column names of submission.csv
};

void declare(config::Section& section, EvalOptions& options);
void declare(config::Section& section, SubmissionOptions& options);

}  // namespace gpuhpc
