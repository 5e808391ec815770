#pragma once
#include <string>
#include <vector>

namespace gpuhpc {

// What the checkpoints of a folder belong to; those of another task are refused.
struct CheckpointTask {
  std::string fingerprint;           // of option values, input files and earlier stages
  std::vector<std::string> options;  // "section.key = value": named when they differ
};

}  // namespace gpuhpc
