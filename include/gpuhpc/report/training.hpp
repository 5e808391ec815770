#pragma once
// Curves, step times and ranks out of the lines that a training writes: metrics.jsonl (one a step,
// one a validation) and ranks.jsonl (one a rank). A field that an older program did not write
// leaves its series out.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpuhpc/report/model.hpp"

namespace gpuhpc {

struct TrainingLines {
  std::string run;            // its name in a comparison
  std::vector<double> steps;  // (N)
  std::map<std::string, std::vector<double>>
      columns;  // "loss", "learning_rates.head", ...: (N), NaN where a line has none
  std::vector<double> validation_steps, validation_losses;
};

// Throws input_error "FILE:LINE: ..." for a broken line; a last line that was cut, as by a kill, is
// passed over.
TrainingLines read_training_lines(const std::filesystem::path& path);
// Same errors. `run` and `times_slower` are left to the caller.
std::vector<ReportRank> read_ranks(const std::filesystem::path& path);

std::vector<ReportCurve> training_curves(const TrainingLines& lines);
// The loss against steps and against seconds of training, then the rest; one series a run, empty
// where it has none. Losses, norms and rates of tokens are running means.
std::vector<ReportCurve> compare_curves(const std::vector<TrainingLines>& runs);
// No parts when the lines have no times.
ReportSplit step_split(const TrainingLines& lines);

// Percent with one digit behind the point, so rounded that they add up to 100.0; all 0 when nothing
// is positive.
std::vector<double> percent_shares(const std::vector<double>& amounts);

}  // namespace gpuhpc
