#pragma once
// A stage is a struct: its members are what it reads (option structs, input files, the outputs of
// earlier stages), and nothing else reaches it. A Pipeline makes its fingerprint of exactly these
// members; the ledger (room app) skips a finished stage whose fingerprint still holds.
//   struct HierarchyStage {
//     using Outputs = TargetFiles;
//     TaxonomyFiles taxonomy;       // input files: has files(), or settings() with their hash
//     PosteriorFiles posterior;     // outputs of an earlier stage: derives from StageFiles;
//                                   // std::optional where not every pipeline has it
//     TargetOptions options;        // an option struct (config/options.hpp)
//     static constexpr bool exports = true;  // optional: knows StageContext::export_folder
//     static constexpr std::int64_t format = 1;  // optional: of its outputs, see Stage
//     void check() const;           // optional: before anything is computed, on the root
//     void run(const StageContext&, const TargetFiles&) const;  // collective
//   };
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/fields.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/train/context.hpp"

namespace gpuhpc {

// What every stage is handed beside its members: where it runs.
struct StageContext {
  Communicator& comm;
  Log log;
  DeviceChoice device;
  std::filesystem::path checkpoints;  // folder that outlives a run stopped or killed in this stage
  CheckpointTask task;                // what a checkpoint of this stage belongs to
  std::function<bool()> stop_requested;  // this rank was asked to save what it can and leave
  std::filesystem::path run_folder;      // for what is watched while the stage runs
  std::string name;                      // of this stage
  // Where not empty: a stage that trains leaves the model of its newest checkpoint in this folder
  // and does not train.
  std::filesystem::path export_folder = {};

  // Throws stopped() when asked to leave. Of this rank alone: only where an error of one rank
  // becomes one of all.
  void leave_if_asked() const;
  // The same when any rank was asked. Collective.
  void leave_together_if_asked() const;
};

// Exit 75: what is finished is kept, the same command goes on.
Error stopped(bool on_all_ranks);

using Paths = std::vector<std::filesystem::path>;  // of input files; an empty one is not there

// The files and folders a stage leaves: a struct derived from this one names each as a member,
//   struct TargetFiles : StageFiles {
//     using StageFiles::StageFiles;
//     std::filesystem::path targets = output("targets.h5");
//   };
class StageFiles {
 public:
  StageFiles(std::string stage, std::filesystem::path folder)
      : stage_(std::move(stage)), folder_(std::move(folder)) {}
  const std::string& stage() const { return stage_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<std::string>& names() const { return names_; }

 protected:
  std::filesystem::path output(const std::string& name) {
    names_.push_back(name);
    return folder_ / name;
  }

 private:
  std::string stage_;
  std::filesystem::path folder_;
  std::vector<std::string> names_;
};

struct Stage {
  std::string name;
  std::vector<std::string> settings;  // "section.key = value" that the outputs depend on
  std::vector<std::filesystem::path>
      files;                         // from outside the run folder (folders: all files in them)
  std::vector<std::string> after;    // stages whose outputs it reads
  std::vector<std::string> outputs;  // what it leaves in its folder
  std::function<void()> check;
  std::function<void(const StageContext&, const std::filesystem::path& folder)> run;
  std::string reference_time;  // that the guide of the Python set-up states for it, on its data
  bool exports = false;        // StageContext::export_folder
  std::int64_t format = 0;     // of its outputs: another one than a finished stage's runs it again
};

class Pipeline {
 public:
  explicit Pipeline(std::filesystem::path run_folder) : run_folder_(std::move(run_folder)) {}

  // Appends a stage and returns its outputs, for the stages that read them.
  template <class S>
  typename S::Outputs add(const std::string& name, const S& stage,
                          const std::string& reference_time = {}) {
    using Outputs = typename S::Outputs;
    Stage entry;
    entry.name = name;
    std::apply([&](const auto&... member) { (note(entry, member), ...); }, fields_of(stage));
    entry.outputs = Outputs(name, {}).names();
    if constexpr (requires { stage.check(); }) entry.check = [stage] { stage.check(); };
    entry.run = [stage, name](const StageContext& context, const std::filesystem::path& folder) {
      stage.run(context, Outputs(name, folder));
    };
    entry.reference_time = reference_time;
    if constexpr (requires { S::exports; }) entry.exports = S::exports;
    if constexpr (requires { S::format; }) entry.format = S::format;
    stages_.push_back(std::move(entry));
    return Outputs(name, folder(stages_.size() - 1));
  }

  // That the guide of the Python set-up states for all stages together, on its data.
  std::string reference_total;

  // "section.key" of options that no stage has among its settings: what chooses the stages, and
  // how they run.
  std::vector<std::string> also_read;

  const std::filesystem::path& run_folder() const { return run_folder_; }
  const std::vector<Stage>& stages() const { return stages_; }
  // usage_error for an option that the command line gives and whose value no stage takes, because
  // all have another or, where it is of training or its name begins with one of `prefixes`, none
  // reads it. A config may name it, that of a run names all; an empty value clears one.
  void refuse_unread(const config::OptionSet& given,
                     std::span<const std::string_view> prefixes) const;
  std::filesystem::path folder(std::size_t stage) const;  // stages/NN-name of the run folder

 private:
  template <class T>
  void note(Stage& stage, const T& member) const {
    if constexpr (requires { member.has_value(); }) {  // std::optional
      if (member) note(stage, *member);
    } else if constexpr (std::derived_from<T, StageFiles>) {
      read_after(stage, member.stage());
    } else if constexpr (config::Options<T>) {
      for (std::string& line : config::settings_of(member))
        stage.settings.push_back(std::move(line));
    } else if constexpr (requires { member.settings(); }) {
      for (std::string& line : member.settings()) stage.settings.push_back(std::move(line));
    } else if constexpr (requires { member.files(); }) {
      for (const std::filesystem::path& file : member.files())
        if (!file.empty()) stage.files.push_back(file);
    } else {  // a group of such members
      std::apply([&](const auto&... inner) { (note(stage, inner), ...); }, fields_of(member));
    }
  }
  void read_after(Stage& stage, const std::string& earlier) const;  // throws for one not added yet

  std::filesystem::path run_folder_;
  std::vector<Stage> stages_;
};

}  // namespace gpuhpc
