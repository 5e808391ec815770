#include "gpuhpc/pipelines/pretrain/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/pretrain/preparation.hpp"
#include "gpuhpc/pipelines/pretrain/training.hpp"

namespace gpuhpc {
namespace {

// Texts of each corpus, in the order of the files.
DataFacts facts_of(const PretrainInputs& inputs) {
  DataFacts facts;
  for (std::size_t first = 0; first < inputs.files.size();) {
    std::int64_t texts = 0;
    const std::string& name = inputs.corpora[first];
    for (; first < inputs.files.size() && inputs.corpora[first] == name; ++first)
      texts += inputs.files[first].documents();
    facts.rows.push_back({name, std::to_string(texts)});
  }
  return facts;
}

}  // namespace

PretrainPipeline pretrain_pipeline(const SharedOptions& shared, const PretrainOptions& o,
                                   const PretrainInputs& inputs,
                                   const std::filesystem::path& run_folder) {
  if (o.short_phase.length >= shared.fine_tune.max_length)
    throw usage_error(
        "--pretrain.short-length {} is not shorter than --train.max-length {}; give a smaller one",
        o.short_phase.length, shared.fine_tune.max_length);
  Pipeline pipeline(run_folder);
  const bool made = o.model.is_size(), learnt = o.vocabulary.size > 0;
  StartModel start;
  TokenizerSource tokenizer;
  if (learnt)
    tokenizer.made = pipeline.add("vocabulary", VocabularyStage{inputs, o.vocabulary});
  else
    tokenizer.given.path = made ? shared.model.encoder : o.model.model;
  const TextTokenFiles texts =
      pipeline.add("tokens", TextTokensStage{inputs, tokenizer, shared.shards});
  if (made)
    start.made =
        pipeline.add("start", NewModelStage{o.model,
                                            learnt ? std::optional(o.vocabulary) : std::nullopt,
                                            tokenizer,
                                            {shared.training.train.seed}});
  else
    start.given.path = o.model.model;
  const Pretraining pretraining{texts, start, o.masking, shared.fine_tuning(),
                                mix_corpora(inputs, o.mixing.weights)};
  Pretraining last = pretraining;
  if (o.short_phase.length > 0) {
    Pretraining first = pretraining;
    first.training.encoder.max_length = o.short_phase.length;
    first.training.trainer.train.epochs = o.short_phase.epochs;
    last.start.trained = pipeline.add("short-training", PretrainTrainingStage{first});
  }
  const TrainedFiles trained = pipeline.add("training", PretrainTrainingStage{last});
  pipeline.add("perplexity", PerplexityStage{pretraining, trained, facts_of(inputs)});
  return {pipeline, tokenizer, pretraining};
}

}  // namespace gpuhpc
