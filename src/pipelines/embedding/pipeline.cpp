#include "gpuhpc/pipelines/embedding/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/embedding/evaluation.hpp"
#include "gpuhpc/pipelines/embedding/tokens.hpp"
#include "gpuhpc/pipelines/embedding/training.hpp"

namespace gpuhpc {

Pipeline embedding_pipeline(const SharedOptions& shared, const FineTuneOptions& tune,
                            const EmbeddingOptions& o, const PairInputs& in,
                            const std::filesystem::path& run_folder) {
  const std::size_t columns = in.train.columns.size();
  const auto needs = [&](std::size_t least, std::size_t most) {
    if (columns < least || columns > most)
      throw usage_error(
          "--embedding.loss {} with {} columns of texts ({}); name {} with "
          "--embedding.columns",
          o.loss.loss, columns, o.files.columns,
          least == most ? std::to_string(least) : fmt::format("{} or more", least));
  };
  if (o.loss.loss == "simcse") needs(1, 1);
  if (o.loss.loss == "triplet" || o.loss.loss == "margin-mse") needs(3, 3);
  if (o.loss.loss == "mnrl-symmetric" || o.loss.loss == "cosine" || o.loss.loss == "cosent" ||
      o.loss.loss == "angle")
    needs(2, 2);
  if (o.loss.loss == "mnrl") needs(2, 1000);
  if (o.loss.loss == "simcse" && tune.dropout == 0)
    throw usage_error(
        "--embedding.loss simcse with --train.dropout 0: a text and itself would be the same "
        "vector; give a dropout, .1 for instance");
  if (in.validation.rows() > 0 && shared.training.train.validation > 0)
    throw usage_error(
        "--embedding.validation and --train.validation {} both say what to validate on; give one "
        "of them",
        shared.training.train.validation);
  const EncoderFiles encoder{{shared.model.encoder}, shared.pooling};
  Pipeline pipeline(run_folder);
  const PairTokenFiles tokens = pipeline.add(
      "tokens", PairTokensStage{in.train, in.validation, in.test, encoder.folder, shared.shards});
  const TrainedFiles trained = pipeline.add(
      "training",
      EmbeddingTrainingStage{tokens, encoder, o.loss, FineTuning{tune, shared.training}});
  pipeline.add("evaluation",
               EmbeddingEvaluationStage{tokens, encoder, trained, o.loss, shared.infer});
  return pipeline;
}

}  // namespace gpuhpc
