#pragma once
// All sections of the program in one place: an option belongs to the struct of its room or job and
// is declared beside it.
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/pipelines/embedding/options.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/label/selection.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/pretrain/options.hpp"
#include "gpuhpc/pipelines/seq2seq/options.hpp"
#include "gpuhpc/plan/options.hpp"

namespace gpuhpc {

struct RunOptions {
  static constexpr const char* section = "run";
  std::string dir = "runs/default";
  std::string export_folder;
};
struct PipelineOptions {
  static constexpr const char* section = "pipeline";
  std::string method = "teleclass", preset = "recommended", from, to, force;
};
struct StageOptions {  // of one stage: [stage.encoding]
  static constexpr const char* section = "stage";
  std::string gpus = "all";  // all | 1
};
struct OutputOptions {  // of the commands that work beside a run folder
  static constexpr const char* section = "output";
  std::string file = "-", dir;
  std::string quantize = "none", calibration;  // of encode
};
struct ReviewOptions {
  static constexpr const char* section = "decode";
  double below = .5;
};
struct ReportOptions {
  static constexpr const char* section = "report";
  std::string runs, page;
};
void declare(config::Section& section, RunOptions& options);
void declare(config::Section& section, PipelineOptions& options);
void declare(config::Section& section, StageOptions& options);
void declare(config::Section& section, OutputOptions& options);
void declare(config::Section& section, ReviewOptions& options);
void declare(config::Section& section, ReportOptions& options);

struct Options {
  SharedOptions shared;
  LabelOptions label;
  EmbeddingOptions embedding;
  PretrainOptions pretrain;
  Seq2SeqOptions seq2seq;
  RunOptions run;
  PipelineOptions pipeline;
  OutputOptions output;
  DeviceOptions device;
  EvalOptions eval;
  ReviewOptions review;
  ReportOptions report;
  SelectOptions select;
  PlanOptions plan;
  std::deque<config::Named<StageOptions>> stages;
};

void declare_options(config::OptionSet& set, Options& options);
// What a command takes for options that the user did not give: option and value.
using Preset = std::vector<std::pair<std::string, std::string>>;
Preset plan_preset(const Options& options);       // that of --plan.job
Preset labelling_preset(const Options& options);  // --pipeline.method and --pipeline.preset
// Steps of --train.on-out-of-memory, each as words of a command line. usage_error for what is no
// option or no value of one.
std::vector<std::vector<std::string>> memory_steps(const std::string& text);

}  // namespace gpuhpc
