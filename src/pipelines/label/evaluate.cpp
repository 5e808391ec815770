#include "gpuhpc/pipelines/label/evaluate.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/gold.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {

void check_gold(const Taxonomy& taxonomy, const std::filesystem::path& gold, Communicator& comm) {
  on_root(comm, [&] { read_gold(gold, taxonomy); });
}

Measured measure_predictions(const Taxonomy& taxonomy, const std::filesystem::path& predictions,
                             const std::filesystem::path& gold, const EvalOptions& options,
                             int threads) {
  const LabelledDocuments documents =
      pair_with_gold(read_gold(gold, taxonomy), read_predictions(predictions, taxonomy));
  return {evaluate_in_detail(taxonomy, documents, options, threads), uncovered(documents, gold)};
}

void write_measures(const std::filesystem::path& folder, const EvaluationDetails& details,
                    const Taxonomy& taxonomy) {
  create_folder(folder);
  write_evaluation(folder / "evaluation.json", details, taxonomy);
  write_metrics(folder / "metrics.json", details.evaluation);
}

}  // namespace gpuhpc
