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
  std::function<void()> evaluate;  // after the last stage; collective; may be empty
};

// Collective. Everything is checked before anything is computed; an existing run folder is resumed,
// under a lock.
void run_job(CommandContext& context, const Job& job);

}  // namespace gpuhpc
