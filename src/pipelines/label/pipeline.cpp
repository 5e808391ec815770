#include "gpuhpc/pipelines/label/pipeline.hpp"

#include "gpuhpc/pipelines/embedding/training.hpp"
#include "gpuhpc/pipelines/label/adaptation.hpp"
#include "gpuhpc/pipelines/pretrain/preparation.hpp"
#include "gpuhpc/pipelines/pretrain/training.hpp"

namespace gpuhpc {

EncoderFiles label_encoder(Pipeline& pipeline, const SharedOptions& shared,
                           const AdaptationOptions& options, const ScannedCorpus& corpus) {
  EncoderFiles encoder{{shared.model.encoder}, shared.pooling, shared.prompt};
  pipeline.also_read.emplace_back("pipeline.adapt");
  if (options.kind == "none") return encoder;
  pipeline.also_read.insert(pipeline.also_read.end(),
                            {"pipeline.adapt-epochs", "pipeline.adapt-lr"});
  FineTuning training = shared.fine_tuning();
  training.encoder = {.encoder_rate = options.rate,
                      .head_rate = 1e-3,  // of a head that may be new
                      .max_length = 128,
                      .layers = -1};
  training.trainer.train.epochs = options.epochs;
  if (options.kind == "sentences") {
    const LearntSets learnt = sentence_pairs(encoder.folder, encoder.prompt);
    const SentencePairFiles pairs = pipeline.add(
        "adaptation-pairs",
        SentencePairsStage{corpus, learnt.sets.front().files, encoder.folder, shared.shards});
    encoder.adapted =
        pipeline.add("adaptation", EmbeddingTrainingStage{pairs, encoder, learnt, training});
    return encoder;
  }
  const TextTokenFiles texts =
      pipeline.add("adaptation-texts",
                   TextTokensStage{{{corpus.scan}}, {std::nullopt, encoder.folder}, shared.shards});
  encoder.adapted = pipeline.add(
      "adaptation",
      PretrainTrainingStage{{texts, {std::nullopt, encoder.folder}, MaskingOptions(), training}});
  return encoder;
}

}  // namespace gpuhpc
