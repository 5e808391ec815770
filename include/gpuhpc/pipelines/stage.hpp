#pragma once
// A stage is a function of option values and input files to the files of its own folder. The ledger
// (room app) skips a finished stage whose fingerprint still holds.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/train/context.hpp"

namespace gpuhpc {

// What every stage is handed: where it runs, and where its files are.
struct StageContext {
  Communicator& comm;
  Log log;
  DeviceChoice device;
  std::filesystem::path folder;  // of this stage's outputs, empty at the start
  std::function<std::filesystem::path(const std::string& stage)>
      folder_of;                      // outputs of an earlier stage
  std::filesystem::path checkpoints;  // folder that outlives a run stopped or killed in this stage
  CheckpointTask task;                // what a checkpoint of this stage belongs to
  std::function<bool()> stop_requested;  // this rank was asked to save what it can and leave
  std::filesystem::path run_folder;      // for what is watched while the stage runs
  std::string name;                      // of this stage

  // Throws stopped() when asked to leave. Of this rank alone: only where an error of one rank
  // becomes one of all.
  void leave_if_asked() const;
  // The same when any rank was asked. Collective.
  void leave_together_if_asked() const;
};

// Exit 75: what is finished is kept, the same command goes on.
Error stopped(bool on_all_ranks);

struct Stage {
  std::string name;
  std::vector<std::string> options;  // "section." or "section.key": values the outputs depend on
  std::vector<std::filesystem::path>
      files;  // input files from outside the run folder (folders: all files in them)
  std::vector<std::string> after;                // stages whose outputs it reads
  std::vector<std::string> outputs;              // files it leaves in its folder
  std::function<void(const StageContext&)> run;  // collective
  std::vector<std::string> free_options =
      {};  // of `options` those that change how it is computed, not what
  std::string elsewhere =
      {};  // the time that the guide of the Python set-up states for this stage, on its data
};

}  // namespace gpuhpc
