#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

#include "gpuhpc/pipelines/label/encoding.hpp"
#include "gpuhpc/pipelines/label/inference.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/teleclass/augmentation.hpp"
#include "gpuhpc/pipelines/label/teleclass/bilinear.hpp"
#include "gpuhpc/pipelines/label/teleclass/hierarchy.hpp"
#include "gpuhpc/pipelines/label/teleclass/refinement.hpp"
#include "gpuhpc/pipelines/label/teleclass/student.hpp"

namespace gpuhpc {
namespace {

constexpr const char* training_time = "50 to 60 min, on 4 GPUs 15 to 20";

}  // namespace

Pipeline teleclass_pipeline(const SharedOptions& shared, const LabelOptions& o,
                            const LabelInputs& in, const std::filesystem::path& run_folder) {
  const ModelFiles encoder{shared.model.encoder};
  const SeedOption seed{shared.training.train.seed};
  const FineTuning training{o.fine_tune, shared.training};
  Pipeline pipeline(run_folder);
  const EncodingFiles encoding = pipeline.add(
      "encoding", EncodingStage{in.taxonomy, in.classes, in.train, encoder, shared.infer,
                                shared.shards, o.class_texts, o.scoring.centring});
  const auto augment = [&](const RefinedFiles& refined) {
    return pipeline.add("augmentation",
                        AugmentationStage{in.taxonomy, in.classes, encoding, refined, encoder,
                                          shared.infer, o.teleclass.augmentation, seed});
  };
  const auto infer = [&](const TrainedFiles& trained) {
    pipeline.add("inference", InferenceStage{trained, encoding, in.test, shared.shards,
                                             shared.infer, o.decode, o.submission});
  };
  if (o.teleclass.refinement.kind == "soft") {
    const PosteriorFiles posterior = pipeline.add(
        "refinement", PosteriorStage{in.taxonomy, encoding, o.scoring.scores, o.soft_refinement,
                                     o.scoring.smoothing, o.scoring.tfidf, o.scoring.neighbours});
    augment(posterior);
    const TargetFiles targets =
        pipeline.add("hierarchy", SoftTargetStage{in.taxonomy, posterior, o.teleclass.targets});
    infer(pipeline.add("training",
                       StudentStage{in.taxonomy, encoding, posterior, targets, in.train, encoder,
                                    shared.infer, o.scoring, o.teleclass.training, training},
                       training_time));
  } else {
    const PublishedRefinementFiles refined = pipeline.add(
        "refinement", PublishedRefinementStage{in.taxonomy, in.classes, encoding, encoder,
                                               shared.infer, o.teleclass.refinement});
    const AugmentationFiles augmentation = augment(refined);
    const LabelFiles labels =
        pipeline.add("hierarchy", TrainingLabelStage{in.taxonomy, encoding, refined, augmentation});
    infer(pipeline.add("training",
                       BilinearStage{in.taxonomy, encoding, augmentation, labels, encoder,
                                     shared.shards, o.teleclass.training, training},
                       training_time));
  }
  return pipeline;
}

}  // namespace gpuhpc
