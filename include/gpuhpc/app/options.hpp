#pragma once
// All sections of the program in one place: an option belongs to the struct of its room and is declared beside it.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/stages/teleclass/options.hpp"

namespace gpuhpc {

struct RunOptions {
  std::string dir = "runs/default";
};
struct PipelineOptions {
  std::string method = "teleclass", preset = "recommended", from, to, force;
};
// Files of the commands that work on text and files outside a run folder.
struct FileOptions {
  std::string model, input = "-", output = "-";
  std::int64_t chunk = 4096;
  double review_below = .5;
};

struct Options {
  RunOptions run;
  PipelineOptions pipeline;
  FileOptions files;
  DeviceOptions device;
  ShardOptions shards;
  EvalOptions eval;
  TeleclassPipelineOptions teleclass;
};

void declare_options(config::OptionSet& set, Options& options);

}  // namespace gpuhpc
