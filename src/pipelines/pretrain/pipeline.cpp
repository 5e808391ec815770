#include "gpuhpc/pipelines/pretrain/pipeline.hpp"

#include "gpuhpc/pipelines/pretrain/preparation.hpp"
#include "gpuhpc/pipelines/pretrain/training.hpp"

namespace gpuhpc {

Pipeline pretrain_pipeline(const SharedOptions& shared, const PretrainOptions& o,
                           const PretrainInputs& inputs, const std::filesystem::path& run_folder) {
  Pipeline pipeline(run_folder);
  const bool made = o.model.is_size(), learnt = o.vocabulary.size > 0;
  StartModel start;
  TokenizerSource tokenizer;
  if (learnt)
    tokenizer.made = pipeline.add("vocabulary", VocabularyStage{inputs, o.vocabulary});
  else
    tokenizer.given.path = made ? shared.model.encoder : o.model.model;
  if (made)
    start.made =
        pipeline.add("start", NewModelStage{o.model,
                                            learnt ? std::optional(o.vocabulary) : std::nullopt,
                                            tokenizer,
                                            {shared.training.train.seed}});
  else
    start.given.path = o.model.model;
  const TextTokenFiles texts =
      pipeline.add("tokens", TextTokensStage{inputs, tokenizer, shared.shards});
  const Pretraining pretraining{texts, start, o.masking, shared.fine_tuning()};
  const TrainedFiles trained = pipeline.add("training", PretrainTrainingStage{pretraining});
  pipeline.add("perplexity", PerplexityStage{pretraining, trained});
  return pipeline;
}

}  // namespace gpuhpc
