#include "gpuhpc/eval/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, EvalOptions& options) {
  section
      .option("predictions", options.predictions,
              "labels to measure: submission.csv, or predictions.jsonl whose scores the ranking "
              "measures need")
      .existing_path()
      .common();
  section.option("gold", options.gold, "gold labels, one `id<TAB>1,2,3` per line, plain or .gz")
      .existing_path()
      .common();
  section
      .option("bootstrap-samples", options.bootstrap_samples,
              "bootstrap resamples for the 95% intervals; 0: no intervals")
      .range(0, 1000000);
  section.option("seed", options.seed, "of the resamples").range(0, 9e15);
  section
      .option("examples", options.examples,
              "documents shown in the report with their predicted and gold classes")
      .range(0, 1000);
}

void declare(config::Section& section, SubmissionOptions& options) {
  section.option("submission-header", options.header,
                 "names of the two columns of submission.csv, separated by a comma");
}

}  // namespace gpuhpc
