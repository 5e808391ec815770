#pragma once
// Curves, step times and ranks out of the lines that a training writes: metrics.jsonl (one a step,
// one a validation) and ranks.jsonl (one per rank). A field that an older program did not write
// leaves its series out.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

struct TrainingLines {
  std::string run;            // its name in a comparison
  std::vector<double> steps;  // (N)
  std::map<std::string, std::vector<double>>
      columns;  // "loss", "learning_rates.head", ...: (N), NaN where a line has none
  std::vector<double> validation_steps, validation_losses;
  std::vector<double> perplexities;  // at those steps; none: the job has no such figure
  // What else validations say, in their order: "loss_NAME" of a data set, "ndcg_at_10", ...
  struct Figure {
    std::string name;
    std::vector<double> steps, values;
  };
  std::vector<Figure> figures;
};

// Throws input_error "FILE:LINE: ..." for a broken line; a last line that was cut, as by a kill, is
// passed over.
TrainingLines read_training_lines(const std::filesystem::path& path);
// The lines as they are, checked. Same errors.
Json read_ranks(const std::filesystem::path& path);

// Curves: [{title, x_label, series: [{name, x, y, not_finite}]}], at most 400 points a series.
// not_finite: how many values of the whole series are not; null where such a one is among the
// points.
Json training_curves(const TrainingLines& lines);
// The loss against steps and against seconds of training, then the rest; one series per run, empty
// where it has none. Losses, norms and rates of tokens are running means.
Json compare_curves(const std::vector<TrainingLines>& runs);
// {count, first, last, parts: [{name, seconds, bars}]}: N steps of rank 0 in at most 60 bars of
// neighbours, `first` to `last`; `seconds` of all steps, `bars` of the mean step. Parts are "data",
// "compute", "sum", "update", "other". null when the lines have no times.
Json step_split(const TrainingLines& lines);

}  // namespace gpuhpc
