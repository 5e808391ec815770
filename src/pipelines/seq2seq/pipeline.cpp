#include "gpuhpc/pipelines/seq2seq/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/seq2seq/evaluation.hpp"
#include "gpuhpc/pipelines/seq2seq/training.hpp"

namespace gpuhpc {

Pipeline seq2seq_pipeline(const SharedOptions& shared, const Seq2SeqOptions& o,
                          const Seq2SeqInputs& in, const std::filesystem::path& run_folder) {
  if (in.validation.rows() > 0 && shared.training.train.validation > 0)
    throw usage_error(
        "--seq2seq.validation and --train.validation {} both say what to validate on; give one of "
        "them",
        shared.training.train.validation);
  o.generation.check();
  Pipeline pipeline(run_folder);
  StartModel start;
  if (o.model.is_size())
    start.made = pipeline.add(
        "start", NewT5Stage{o.model, {shared.model.encoder}, {shared.training.train.seed}});
  else
    start.given.path = o.model.model;
  const ModelFiles tokenizer{o.model.is_size() ? shared.model.encoder : o.model.model};
  const Seq2SeqTokenFiles tokens =
      pipeline.add("tokens", Seq2SeqTokensStage{in.train, in.validation, tokenizer, shared.shards});
  const Seq2SeqLearning learning{tokens, start, o.learning, shared.fine_tuning()};
  const SourcePrefix prefix{o.files.prefix};
  const TrainedFiles trained = pipeline.add("training", Seq2SeqTrainingStage{learning, prefix});
  pipeline.add("evaluation", Seq2SeqEvaluationStage{learning, trained, prefix, o.evaluation,
                                                    o.generation, shared.infer});
  return pipeline;
}

}  // namespace gpuhpc
