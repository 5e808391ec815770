#include "gpuhpc/pipelines/label/evaluate.hpp"
#include "gpuhpc/app/command.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {

void evaluate_command(CommandContext& c) {
  namespace fs = std::filesystem;
  const Options& o = c.options;
  InputLayout layout;
  Taxonomy taxonomy;
  fs::path predictions, gold, folder;
  run_collectively(c.comm, [&] {
    layout = resolve_layout(o.shared.input.dir, false);
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
    predictions = o.eval.predictions.empty() ? fs::path(o.run.dir) / "predictions.jsonl"
                                             : fs::path(o.eval.predictions);
    gold = o.eval.gold.empty() ? layout.test_gold : fs::path(o.eval.gold);
    if (gold.empty())
      throw usage_error("{} has no test/doc2labels.txt; name the gold labels with --eval.gold FILE",
                        o.shared.input.dir);
    folder = predictions.has_parent_path() ? predictions.parent_path() : fs::path(".");
  });
  evaluate_predictions(taxonomy, predictions, gold, o.eval, folder, c.comm, c.device.threads);
  if (!c.comm.is_root()) return;
  const EvaluationDetails details = read_evaluation(folder / "evaluation.json");
  fmt::print("{}\n{}metrics: {}\n", format_metrics(details.evaluation, true),
             format_levels(details.evaluation), (folder / "metrics.json").string());
}

}  // namespace gpuhpc
