#pragma once
// What lies where in a run folder, finished or not.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/options.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {

struct RunFacts {  // run.json; empty in folders of older programs
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::string> warnings, reused;  // reused: stages that the last launch found finished
  std::string input;                          // the input folder, absolute
};

struct RunTraining {
  std::string stage;            // empty: not known, the lines were found without their stage
  std::filesystem::path lines;  // metrics.jsonl
  bool finished = true;         // else in its checkpoint folder
};

class RunFolder {
 public:
  // Throws input_error when `path` is not a run folder.
  explicit RunFolder(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  std::string name() const;
  const std::map<std::string, std::string>& config() const {
    return config_;
  }                         // config.ini: "section.key" -> value
  Options options() const;  // those that a report needs; input.dir: absolute where known
  RunFacts facts() const;
  std::vector<ReportStage> stages() const;   // the finished ones
  std::vector<std::string> missing() const;  // the stages of its pipeline that are not finished
  bool finished(const std::string& stage) const;
  // Of a stage of its pipeline.
  std::filesystem::path stage_folder(const std::string& stage) const;
  // In the order of their stages: the finished ones, then one that is not, in the checkpoint folder
  // that was written last. The first one is what the run is about: later ones go on with its model.
  std::vector<RunTraining> trainings() const;
  std::optional<std::filesystem::path> rank_lines() const;  // of the first training
  // A file of the model/ folder, published or still with its stage.
  std::optional<std::filesystem::path> model_file(const std::string& name) const;

  // Of the last stage that left such a file.
  std::optional<std::filesystem::path> stage_file(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> config_;
  std::vector<std::string> pipeline_;  // its stages
  std::map<std::string, StageCost> costs_;
};

}  // namespace gpuhpc
