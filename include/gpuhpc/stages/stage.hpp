#pragma once
// A stage is a function of option values and input files to the files of its own folder. The ledger (room app) skips a
// finished stage whose fingerprint still holds.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"

namespace gpuhpc {

// What every stage is handed: where it runs, and where its files are.
struct StageContext {
  Communicator& comm;
  Log log;
  DeviceChoice device;
  std::filesystem::path folder;                                                  // of this stage's outputs, empty at the start
  std::function<std::filesystem::path(const std::string& stage)> folder_of;     // outputs of an earlier stage
};

struct Stage {
  std::string name;
  std::vector<std::string> options;                // "section." or "section.key": values the outputs depend on
  std::vector<std::filesystem::path> files;        // input files from outside the run folder (folders: all files in them)
  std::vector<std::string> after;                  // stages whose outputs it reads
  std::vector<std::string> outputs;                // files it leaves in its folder
  std::function<void(const StageContext&)> run;    // collective
};

}  // namespace gpuhpc
