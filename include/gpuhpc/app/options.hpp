#pragma once
// All sections of the program in one place: an option belongs to the struct of its room and is
// declared beside it.
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

// Files of the commands that work beside a run folder.
struct FileOptions {
  std::string model, input = "-", output = "-", output_dir;
  double review_below = .5;
  std::string report_runs, report_page;
};

struct Options {
  std::string run_dir = "runs/default";
  std::string method = "teleclass", preset = "recommended", from, to, force;
  FileOptions files;
  DeviceOptions device;
  EvalOptions eval;
  TeleclassPipelineOptions teleclass;
  TaxoclassOptions taxoclass;
};

void declare_options(config::OptionSet& set, Options& options);
// The stages of --pipeline.method, in order.
std::vector<Stage> pipeline_stages(const Options& options, const InputLayout& layout);
// Puts the values of --pipeline.preset under whatever the user gave.
void apply_preset(config::OptionSet& set, const Options& options);

}  // namespace gpuhpc
