#pragma once
// A job in its run folder: stages, signals, log, what is published, report. Knows no taxonomy.
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct Job {
  Pipeline pipeline;
  std::string input;        // what it reads, for the report
  std::string description;  // one sentence for the log
  std::vector<std::string> warnings;
  // On the root after the last stage; gives warnings; may be empty.
  std::function<std::vector<std::string>()> evaluate;
  std::string to = {};  // a stage to end with, whatever --pipeline.to says
};

// Collective. Everything is checked before anything is computed; an existing run folder is resumed,
// under a lock.
void run_job(CommandContext& context, Job job);

}  // namespace gpuhpc
