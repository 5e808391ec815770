#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/encoding.hpp"
#include "gpuhpc/pipelines/label/inference.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"
#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"
#include "gpuhpc/pipelines/label/taxoclass/cores.hpp"
#include "gpuhpc/pipelines/label/taxoclass/self_training.hpp"
#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"

namespace gpuhpc {

Pipeline taxoclass_pipeline(const SharedOptions& shared, const LabelOptions& o,
                            const LabelInputs& in, const std::filesystem::path& run_folder) {
  const TaxoclassOptions& t = o.taxoclass;
  t.similarity.check();
  const ModelFiles encoder{shared.model.encoder};
  const ExpectedLeavesOption leaves = o.expected_leaves();
  const SeedOption seed{shared.training.train.seed};
  const FineTuning training{o.fine_tune, shared.training};
  Pipeline pipeline(run_folder);
  const EncodingFiles encoding = pipeline.add(
      "encoding", EncodingStage{in.taxonomy, in.classes, in.train, encoder, shared.infer,
                                shared.shards, o.class_texts, o.scoring.centring});
  const PosteriorFiles posterior = pipeline.add(
      "posterior", PosteriorStage{in.taxonomy, encoding, o.scoring.scores, o.soft_refinement,
                                  o.scoring.smoothing, o.scoring.tfidf, o.scoring.neighbours});
  const auto similarity = [&](const auto& stage) {
    return pipeline.add("similarity", stage, "60 min, on an A6000 15");
  };
  const auto entailment = [&](const auto& model) {
    using Model = std::remove_cvref_t<decltype(model)>;
    return similarity(EntailmentStage<Model>{in.taxonomy, encoding, model, shared.infer,
                                             t.statements, t.entailment});
  };
  const auto score = [&]() -> SimilarityFiles {
    if (t.similarity.backend == "nli") return entailment(ModelFiles{t.similarity.nli_model});
    if (t.similarity.backend == "pair")
      return entailment(pipeline.add(
          "pair-model", PairModelStage{in.taxonomy,
                                       {encoding, posterior, t.statements, t.pair, leaves, seed},
                                       encoder,
                                       training}));
    if (t.similarity.calibration == "names")
      return similarity(NameSimilarityStage{encoding, o.scoring.scores});
    return similarity(PathSimilarityStage{in.taxonomy, posterior, leaves});
  };
  const CoreFiles cores = pipeline.add("cores", CoreStage{in.taxonomy, encoding, score(), t.cores});
  const GraphInputs graph{in.taxonomy, encoding, cores, t.graph, o.scoring.centring};
  const GraphModelFiles classifier = pipeline.add(
      "classifier", GraphClassifierStage{graph, encoder, training}, "120 min, on an A6000 45");
  const SelfTrainingFiles trained = pipeline.add(
      "self-training",
      SelfTrainingStage{graph, posterior, classifier, in.train, encoder, shared.infer, o.scoring,
                        leaves, o.label_limits(), t.self_training, training},
      "90 min, on an A6000 35");
  pipeline.add("inference", InferenceStage{trained, encoding, in.test, shared.shards, shared.infer,
                                           o.decode, o.submission});
  return pipeline;
}

std::vector<std::pair<std::string, std::string>> taxoclass_preset(const std::string& name) {
  // Rates lower than the student's: every class is a target of its own, and their losses are
  // summed.
  if (name == "recommended" || name == "fixed")
    return {{"train.epochs", "2"}, {"train.batch", "64"}};
  if (name != "paper")
    throw usage_error(
        "--pipeline.preset {}: --pipeline.method taxoclass has the presets recommended, fixed and "
        "paper",
        name);
  // Shen et al. 2021, section 4.1: AdamW, batch 64, rates 5e-5 and 4e-3, then 1e-6 and 5e-4 in
  // self-training, targets anew every 25 batches.
  return {{"scoring.class-texts", "name"},
          {"scoring.descriptions", "false"},
          {"scoring.centring", "0"},
          {"taxoclass.calibration", "names"},
          {"taxoclass.positive-confidence", "false"},
          {"taxoclass.against-parents", "true"},
          {"taxoclass.features", "words"},
          {"taxoclass.graph-hidden", "512"},
          {"taxoclass.graph-layers", "3"},
          {"taxoclass.graph-residual", "false"},
          {"taxoclass.graph-lr", "4e-3"},
          {"taxoclass.scale", "1"},
          {"taxoclass.link", "sigmoid-exp"},
          {"taxoclass.labels-from", "classifier"},
          {"taxoclass.self-training-head-lr", "5e-4"},
          {"train.encoder-lr", "5e-5"},
          {"train.head-lr", "4e-3"},
          {"train.batch", "64"},
          {"train.epochs", "5"},
          {"train.max-length", "256"},
          {"train.layers", "-1"},
          {"decode.mode", "top-k"}};
}

}  // namespace gpuhpc
