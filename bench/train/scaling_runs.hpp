#pragma once
// The runs that scaling_table_bench compares: lines of scaling_bench, or run folders of `gpuhpc
// run` on a cluster.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {

// Seconds of one step on the rank that computed longest; the others waited `waiting` for it on
// average. Tokens of all ranks.
struct ScalingStep {
  double wall = 0, data = 0, compute = 0, exposed = 0, update = 0, waiting = 0, tokens = 0;
  double other() const { return wall - data - compute - exposed - update; }
  double tokens_per_second() const { return tokens / wall; }
};

struct ScalingRun {
  std::string place, kind, precision, wire;
  int ranks = 1, nodes = 1,
      cores = 0;  // cores of the machine on which all ranks run; 0: each rank has its own
  std::int64_t layers = 0, accumulation = 1;
  double batch = 0;  // documents
  double bytes = 0, sum_alone = 0,
         message = 0;  // that travel; seconds of their sum with nothing beside it; of 96 bytes
  double processor = 0, computing = 0;  // seconds per step, all ranks: of their processes, of their
                                        // computing threads; 0: not known
  std::vector<double> losses;
  std::vector<ScalingStep> steps;
  ScalingStep mean;  // of the middle half of the steps by wall time: outliers are left out, and the
                     // phases still add up
};

inline ScalingStep middle_half(std::vector<ScalingStep> steps) {
  std::ranges::sort(steps, {}, &ScalingStep::wall);
  const std::size_t cut = steps.size() / 4, count = steps.size() - 2 * cut;
  ScalingStep mean;
  for (std::size_t i = cut; i < cut + count; ++i)
    for (double ScalingStep::*field :
         {&ScalingStep::wall, &ScalingStep::data, &ScalingStep::compute, &ScalingStep::exposed,
          &ScalingStep::update, &ScalingStep::waiting, &ScalingStep::tokens})
      mean.*field += steps[i].*field / static_cast<double>(count);
  return mean;
}

inline ScalingRun read_line(const Json& line) {
  ScalingRun run;
  run.place = line.at("place"), run.kind = line.at("kind"), run.precision = line.at("precision"),
  run.wire = line.at("wire");
  run.ranks = line.at("ranks"), run.nodes = line.at("nodes"), run.cores = line.at("cores");
  run.layers = line.at("layers"), run.accumulation = line.at("accumulation"),
  run.batch = line.at("batch");
  run.bytes = line.at("bytes"), run.sum_alone = line.at("sum_alone"),
  run.message = line.at("message");
  run.processor = line.at("processor"), run.computing = line.at("computing");
  run.losses = line.at("losses").get<std::vector<double>>();
  for (const Json& step : line.at("steps"))
    run.steps.push_back({step.at("wall"), step.at("data"), step.at("compute"), step.at("exposed"),
                         step.at("update"), step.at("waiting"), step.at("tokens")});
  run.mean = middle_half(run.steps);
  return run;
}

// A run folder NAME-NODES: a log per rank, and metrics.jsonl, which has the phases of rank 0. The
// first tenth of the steps is left out.
inline ScalingRun read_folder(const std::filesystem::path& folder) {
  ScalingRun run;
  run.place = "cluster";
  const std::string name = folder.filename().string(), nodes = name.substr(name.rfind('-') + 1);
  if (nodes.empty() || nodes.find_first_not_of("0123456789") != std::string::npos)
    throw input_error(
        "{}: the name of a run folder ends in -NODES here, as jobs/slurm/scaling.sh names them",
        folder.string());
  run.nodes = std::stoi(nodes), run.ranks = 0;
  if (!std::filesystem::exists(folder / "metrics.jsonl"))
    throw input_error("{} has no metrics.jsonl: that run has not ended; look into its log",
                      folder.string());
  for (const auto& entry : std::filesystem::directory_iterator(folder / "log"))
    run.ranks += entry.path().filename().string().starts_with("rank-");
  LineReader lines(folder / "metrics.jsonl");
  for (std::string line; lines.next(line);) {
    const Json step = parse_json(line, lines.where());
    if (!step.contains("compute_seconds")) continue;  // a validation
    const double tokens = step.at("tokens");
    run.batch = std::max(run.batch, step.at("documents").get<double>());
    run.losses.push_back(step.at("loss").is_null() ? std::nan("") : step.at("loss").get<double>());
    run.steps.push_back({tokens / step.at("tokens_per_second").get<double>(),
                         step.at("data_seconds"), step.at("compute_seconds"),
                         step.at("exposed_communication_seconds"), step.at("update_seconds"), 0,
                         tokens});
  }
  if (run.steps.empty())
    throw input_error("{}/metrics.jsonl has no training step", folder.string());
  run.steps.erase(run.steps.begin(),
                  run.steps.begin() + static_cast<std::ptrdiff_t>(run.steps.size() / 10));
  run.mean = middle_half(run.steps);
  return run;
}

// The same training on one rank (a cluster's smallest run): what a run's efficiency is of.
inline const ScalingRun& base_of(const std::vector<ScalingRun>& runs, const ScalingRun& run) {
  const ScalingRun* base = nullptr;
  for (const ScalingRun& other : runs)
    if (other.place == run.place && other.kind == run.kind && other.layers == run.layers &&
        (base == nullptr || other.ranks < base->ranks))
      base = &other;
  return *base;
}

// How many times a rank's own processor has to do the work of several: ranks in excess of cores
// take turns.
inline double sharing(const ScalingRun& run) {
  return run.cores == 0 ? 1 : std::max(1.0, static_cast<double>(run.ranks) / run.cores);
}
inline double efficiency(const std::vector<ScalingRun>& runs, const ScalingRun& run) {
  const ScalingRun& base = base_of(runs, run);
  return run.mean.tokens_per_second() / base.mean.tokens_per_second() * base.ranks / run.ranks;
}

// Largest difference of a loss from the base's; strong scaling learns from the same batches.
inline double loss_difference(const std::vector<ScalingRun>& runs, const ScalingRun& run,
                              std::size_t steps) {
  const ScalingRun& base = base_of(runs, run);
  double largest = 0;
  for (std::size_t i = 0; i < std::min({steps, run.losses.size(), base.losses.size()}); ++i) {
    const double difference = std::abs(run.losses[i] - base.losses[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

}  // namespace gpuhpc
