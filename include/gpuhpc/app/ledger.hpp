#pragma once
// ledger.json of a run folder: which stages are finished, with the fingerprint of what they were
// made from.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct LedgerEntry {
  std::string fingerprint;
  double seconds = 0;
  std::map<std::string, std::int64_t> outputs;  // file -> bytes
};

class Ledger {
 public:
  explicit Ledger(std::filesystem::path run_folder);  // reads ledger.json when it is there
  const LedgerEntry* find(const std::string& stage) const;
  void finish(const std::string& stage, LedgerEntry entry);  // writes ledger.json
  void forget(const std::string& stage);
  // The entry stands for these outputs: same fingerprint, every file present in its recorded size.
  bool holds(const std::string& stage, const std::string& fingerprint,
             const std::filesystem::path& folder) const;

 private:
  void save() const;
  std::filesystem::path path_;
  std::map<std::string, LedgerEntry> entries_;
};

// Hash of the option values, file contents and earlier fingerprints that a stage depends on.
// Options that change only how a stage computes are left out.
std::string stage_fingerprint(const Stage& stage, const config::OptionSet& options,
                              const std::map<std::string, std::string>& earlier);

// What is done with a stage, and why: decided without touching anything.
enum class StageDecision { skip, run };
StageDecision decide(const Stage& stage, bool holds, bool earlier_ran, const std::string& forced);

struct StageTime {
  std::string name;
  double seconds = 0;
  bool skipped = false;
};

struct PipelineRange {
  std::string from, to, force;  // stage names or empty
};

// stages/NN-name of the run folder.
std::filesystem::path stage_folder(const std::filesystem::path& run_folder,
                                   const std::vector<Stage>& stages, std::size_t stage);

// Runs the stages in order inside `run_folder`/stages/NN-name. Collective. A stage works in a
// temporary folder which is renamed when it has finished, so a run killed at any point continues
// from the last finished stage; one that trains, from its newest checkpoint in
// `run_folder`/checkpoints/name/fingerprint, which a finished stage removes: other options or data
// have a folder of their own. When `stop_requested` says so on any rank, the stage saves what it
// can and all ranks throw the error of exit 75.
std::vector<StageTime> run_stages(const std::vector<Stage>& stages,
                                  const config::OptionSet& options, const PipelineRange& range,
                                  const std::filesystem::path& run_folder, Communicator& comm,
                                  const Log& log, const DeviceChoice& device,
                                  const std::function<bool()>& stop_requested = {});

}  // namespace gpuhpc
