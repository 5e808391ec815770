#include "gpuhpc/eval/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, EvalOptions& options) {
  section
      .option("predictions", options.predictions,
              "labels to measure: submission.csv, or predictions.jsonl whose scores the ranking "
              "measures need")
      .existing_path()
      .common();
  section.option("gold", options.gold, "gold labels, `id<TAB>1,2,3` a line, .gz or not")
      .existing_path()
      .common();
  section
      .option("bootstrap-samples", options.bootstrap_samples,
              "resamples behind the 95% intervals; 0: no intervals")
      .range(0, 1000000);
  section.option("seed", options.seed, "of the resamples").range(0, 9e15);
  section
      .option("examples", options.examples,
              "documents shown in the report with their predicted and gold classes")
      .range(0, 1000);
}

void declare(config::Section& section, SubmissionOptions& options) {
  section.option("submission-header", options.header,
                 "names of the two columns of submission.csv, with a comma between");
}

}  // namespace gpuhpc
