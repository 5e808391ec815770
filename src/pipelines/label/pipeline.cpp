#include "gpuhpc/pipelines/label/pipeline.hpp"

#include <algorithm>

#include "gpuhpc/pipelines/embedding/training.hpp"
#include "gpuhpc/pipelines/label/adaptation.hpp"
#include "gpuhpc/pipelines/label/encoding.hpp"
#include "gpuhpc/pipelines/pretrain/preparation.hpp"
#include "gpuhpc/pipelines/pretrain/training.hpp"

namespace gpuhpc {
namespace {

FineTuning adaptation_training(const SharedOptions& shared, const AdaptationOptions& options) {
  constexpr std::int64_t enough = 128;  // tokens of a text
  const std::int64_t limit = read_model_folder(shared.model.encoder).embedding.max_tokens;
  FineTuning training = shared.fine_tuning();
  training.encoder = {.encoder_rate = options.rate,
                      .head_rate = 1e-3,  // of a head that may be new
                      .max_length = limit > 0 ? std::min(enough, limit) : enough,
                      .layers = -1};
  TrainOptions& train = training.trainer.train;
  train.epochs = options.epochs;
  train.batch = options.batch, train.batch_per_rank = train.batch_tokens = 0;
  return training;
}

TrainedFiles learn_masked_words(Pipeline& pipeline, const SharedOptions& shared,
                                const EncodingStage& as_it_is, const FineTuning& training) {
  const ModelFiles& encoder = as_it_is.encoder.folder;
  const TextTokenFiles texts = pipeline.add(
      "adaptation-texts",
      TextTokensStage{{{as_it_is.corpus.scan}}, {std::nullopt, encoder}, shared.shards});
  return pipeline.add(
      "adaptation",
      PretrainTrainingStage{{texts, {std::nullopt, encoder}, MaskingOptions(), training}});
}

TrainedFiles learn_pairs(Pipeline& pipeline, const SharedOptions& shared, const LabelOptions& o,
                         const EncodingStage& as_it_is, const FineTuning& training) {
  const EncoderFiles& encoder = as_it_is.encoder;
  const LearntSets learnt = corpus_pairs(encoder.folder, encoder.prompt);
  std::optional<NeighbourPairing> neighbours;
  if (o.adaptation_kind.wants_neighbours())
    neighbours = NeighbourPairing{pipeline.add("adaptation-encoding", as_it_is), o.scoring.tfidf,
                                  o.scoring.neighbours};
  const CorpusPairFiles pairs = pipeline.add(
      "adaptation-pairs",
      CorpusPairsStage{as_it_is.corpus, o.adaptation_kind, o.adaptation_texts, neighbours,
                       learnt.sets.front().files, encoder.folder, shared.shards});
  return pipeline.add("adaptation", EmbeddingTrainingStage{pairs, encoder, learnt, training});
}

}  // namespace

LabelEncoding label_encoding(Pipeline& pipeline, const SharedOptions& shared, const LabelOptions& o,
                             const LabelInputs& in) {
  const EncoderFiles encoder{{shared.model.encoder}, shared.pooling, shared.prompt};
  const ClassEncoding classes{in.taxonomy, in.classes, o.class_prompt, o.class_texts,
                              o.scoring.centring};
  EncodingStage stage{classes, in.train, encoder, shared.infer, shared.shards};
  pipeline.also_read.emplace_back("pipeline.adapt");
  if (o.adaptation_kind.value != "none") {
    pipeline.also_read.insert(
        pipeline.also_read.end(),
        {"pipeline.adapt-epochs", "pipeline.adapt-batch", "pipeline.adapt-lr"});
    if (o.adaptation_kind.value != "mlm") pipeline.also_read.emplace_back("pipeline.adapt-texts");
    const FineTuning training = adaptation_training(shared, o.adaptation);
    const TrainedFiles adapted = o.adaptation_kind.value == "mlm"
                                     ? learn_masked_words(pipeline, shared, stage, training)
                                     : learn_pairs(pipeline, shared, o, stage, training);
    const AdaptationChoiceStage choice{o.adaptation_kind, classes, in.train,
                                       encoder,           adapted, shared.infer};
    stage.encoder.adapted = {adapted, pipeline.add("adaptation-choice", choice)};
  }
  return {stage.encoder, pipeline.add("encoding", stage)};
}

}  // namespace gpuhpc
