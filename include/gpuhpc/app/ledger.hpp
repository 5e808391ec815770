#pragma once
// Which stages of a run are finished, and what has to run again. A stage whose settings, input
// files, earlier stages and own outputs are as they were is skipped.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// What a stage needed.
struct StageCost {
  double seconds = 0;
  // bytes at most, of the rank that needed most: resident in its process, and held by tensors on
  // its GPU
  std::int64_t memory = 0, gpu_memory = 0;
};

struct LedgerEntry {
  std::string fingerprint;
  StageCost cost;
  std::map<std::string, std::string> outputs;  // file -> hash of its content
};

// ledger.json of a run folder.
class Ledger {
 public:
  explicit Ledger(const std::filesystem::path& run_folder);  // reads the file when it is there
  const LedgerEntry* find(const std::string& stage) const;
  // The stages of the pipeline that wrote it last, in order.
  const std::vector<std::string>& order() const { return order_; }
  void set_order(std::vector<std::string> stages);
  void finish(const std::string& stage, LedgerEntry entry);
  void forget(const std::string& stage);
  // The stage has finished with this fingerprint.
  bool has(const std::string& stage, const std::string& fingerprint) const;
  // The first file of a finished stage in `folder` that is not as the stage left it.
  std::optional<std::filesystem::path> altered(const std::string& stage,
                                               const std::filesystem::path& folder) const;

 private:
  void save() const;
  std::filesystem::path path_;
  std::vector<std::string> order_;
  std::map<std::string, LedgerEntry> entries_;
};

// Fingerprint of every stage, in order: its name, settings, the content of its input files and the
// fingerprints of the stages it reads. Each input file is read once.
std::vector<std::string> stage_fingerprints(const std::vector<Stage>& stages);

// `stage` and all that read it, directly or through others, in order.
std::vector<std::string> with_dependents(const std::vector<Stage>& stages,
                                         const std::string& stage);

struct StageTime {
  std::string name;
  StageCost cost;
  bool skipped = false;
};

struct PipelineRange {
  std::string from, to, force;             // stage names or empty
  std::map<std::string, bool> alone = {};  // [stage.NAME]: whether rank 0 runs it alone
};

// Throws usage_error for a stage that the pipeline does not have, and what the checks of its stages
// throw. Computes nothing.
void check_pipeline(const Pipeline& pipeline, const PipelineRange& range);

// Runs the stages in order. Collective. A stage works in a temporary folder which is renamed when
// it has finished, so a run killed at any point continues from the last finished stage; one that
// trains, from its newest checkpoint in RUN/checkpoints/NAME/FINGERPRINT, which a finished stage
// removes: other options or data have a folder of their own. When `stop_requested` says so on any
// rank, the stage saves what it can and all ranks throw the error of exit 75.
std::vector<StageTime> run_stages(const Pipeline& pipeline, const PipelineRange& range,
                                  Communicator& comm, const Log& log, const DeviceChoice& device,
                                  const std::function<bool()>& stop_requested = {});

// The first stage that is not finished leaves the model of its newest checkpoint in `folder`; the
// run stays as it is. Collective. usage_error when there is nothing to export.
void export_model(const Pipeline& pipeline, const std::filesystem::path& folder, Communicator& comm,
                  const Log& log, const DeviceChoice& device);

}  // namespace gpuhpc
