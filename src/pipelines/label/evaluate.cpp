#include "gpuhpc/pipelines/label/evaluate.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/gold.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {

void check_gold(const Taxonomy& taxonomy, const std::filesystem::path& gold, Communicator& comm) {
  on_root(comm, [&] { read_gold(gold, taxonomy); });
}

void evaluate_predictions(const Taxonomy& taxonomy, const std::filesystem::path& predictions,
                          const std::filesystem::path& gold, const EvalOptions& options,
                          const std::filesystem::path& folder, Communicator& comm, int threads) {
  on_root(comm, [&] {
    const LabelledDocuments documents =
        pair_with_gold(read_gold(gold, taxonomy), read_predictions(predictions, taxonomy));
    const EvaluationDetails details = evaluate_in_detail(taxonomy, documents, options, threads);
    create_folder(folder);
    write_evaluation(folder / "evaluation.json", details, taxonomy);
    write_metrics(folder / "metrics.json", details.evaluation);
  });
}

}  // namespace gpuhpc
