#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/correction.hpp"
#include "gpuhpc/pipelines/label/inference.hpp"
#include "gpuhpc/pipelines/label/pipeline.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"
#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"
#include "gpuhpc/pipelines/label/taxoclass/cores.hpp"
#include "gpuhpc/pipelines/label/taxoclass/self_training.hpp"
#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"
#include "gpuhpc/pipelines/label/test_encoding.hpp"

namespace gpuhpc {

Pipeline taxoclass_pipeline(const SharedOptions& shared, const LabelOptions& o,
                            const LabelInputs& in, const std::filesystem::path& run_folder) {
  const TaxoclassOptions& t = o.taxoclass;
  t.check();
  const ExpectedLeavesOption leaves = o.leaves();
  const SeedOption seed{shared.training.train.seed};
  const FineTuning training = shared.fine_tuning();
  Pipeline pipeline(run_folder);
  pipeline.also_read = {"taxoclass.similarity"};
  if (t.similarity.backend == "embedding")
    pipeline.also_read.push_back("taxoclass.calibration");
  else
    pipeline.also_read.push_back("taxoclass.similarity-batch");
  if (t.similarity.backend == "nli") pipeline.also_read.push_back("taxoclass.nli-model");
  const LabelEncoding encoded = label_encoding(pipeline, shared, o, in);
  const EncoderFiles& encoder = encoded.encoder;
  const EncodingFiles& encoding = encoded.files;
  // The sentence encoder's posterior is made where something reads it: its own similarity, the
  // examples of a cross-encoder that is trained here, or labels that are the teacher's as well.
  const bool own_paths = t.similarity.sums_paths();
  std::optional<PosteriorFiles> posterior;
  if (own_paths || t.similarity.backend == "pair" || t.self_training.labels_from != "classifier")
    posterior = pipeline.add(
        "posterior", PosteriorStage{in.taxonomy, encoding, o.scoring.scores, o.soft_refinement,
                                    o.scoring.smoothing, o.scoring.tfidf, o.scoring.neighbours});
  // The guide's times are those of its own similarity, a cross-encoder it is given.
  const bool guide = t.similarity.backend == "nli";
  if (guide)
    pipeline.reference_total =
        "270 min for all of it, on an A6000 117, there with its conservative settings 67";
  const auto as_guide = [&](const char* time) { return std::string(guide ? time : ""); };
  const auto similarity = [&](const auto& stage) {
    return pipeline.add("similarity", stage, as_guide("60 min, on an A6000 15"));
  };
  const auto entailment = [&](const auto& model) {
    using Model = std::remove_cvref_t<decltype(model)>;
    return similarity(EntailmentStage<Model>{in.taxonomy, encoding, model, shared.infer,
                                             t.statements, t.entailment});
  };
  const auto score = [&]() -> SimilarityFiles {
    if (guide) return entailment(ModelFiles{t.similarity.nli_model});
    if (t.similarity.backend == "pair")
      return entailment(pipeline.add(
          "pair-model", PairModelStage{in.taxonomy,
                                       {encoding, *posterior, t.statements, t.pair, leaves, seed},
                                       encoder,
                                       training}));
    if (own_paths) return similarity(PathSimilarityStage{in.taxonomy, *posterior, leaves});
    return similarity(NameSimilarityStage{encoding, o.scoring.scores});
  };
  const CoreFiles cores = pipeline.add("cores", CoreStage{in.taxonomy, encoding, score(), t.cores});
  const GraphInputs graph{in.taxonomy, encoding, cores, t.graph, o.scoring.centring};
  const GraphModelFiles classifier =
      pipeline.add("classifier", GraphClassifierStage{graph, encoder, training},
                   as_guide("120 min, on an A6000 45"));
  const SelfTrainingFiles trained =
      pipeline.add("self-training",
                   SelfTrainingStage{graph, posterior, classifier, in.train, encoder, shared.infer,
                                     o.scoring, t.self_training, training},
                   as_guide("90 min, on an A6000 35"));
  const TestEncodingFiles test = pipeline.add(
      "test-encoding", TestEncodingStage{trained, encoding, in.test, shared.shards, shared.infer});
  const auto corrected = correct_by_labels(pipeline, in.labels, trained, encoding, o.decode,
                                           t.self_training.labels_from != "classifier");
  pipeline.add("inference", InferenceStage{trained, corrected, encoding, test, in.test,
                                           shared.infer, o.decode, o.submission});
  return pipeline;
}

std::vector<std::pair<std::string, std::string>> taxoclass_preset(const std::string& name,
                                                                  double expected_leaves) {
  // Rates lower than the student's: every class is a target of its own, and their losses are
  // summed.
  if (name == "recommended" || name == "fixed")
    return {{"pipeline.adapt", "auto"},
            {"train.epochs", "2"},
            {"train.batch", "64"},
            {"train.base-batch", "64"},
            temperature_for(expected_leaves)};
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
          {"train.base-batch", "64"},
          {"train.epochs", "5"},
          {"train.max-length", "256"},
          {"train.layers", "-1"},
          {"decode.mode", "top-k"}};
}

}  // namespace gpuhpc
