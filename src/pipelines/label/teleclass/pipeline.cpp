#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/correction.hpp"
#include "gpuhpc/pipelines/label/inference.hpp"
#include "gpuhpc/pipelines/label/pipeline.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/taxoclass/cores.hpp"
#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"
#include "gpuhpc/pipelines/label/teleclass/augmentation.hpp"
#include "gpuhpc/pipelines/label/teleclass/bilinear.hpp"
#include "gpuhpc/pipelines/label/teleclass/class_student.hpp"
#include "gpuhpc/pipelines/label/teleclass/hierarchy.hpp"
#include "gpuhpc/pipelines/label/teleclass/refinement.hpp"
#include "gpuhpc/pipelines/label/teleclass/student.hpp"
#include "gpuhpc/pipelines/label/test_encoding.hpp"

namespace gpuhpc {

Pipeline teleclass_pipeline(const SharedOptions& shared, const LabelOptions& o,
                            const LabelInputs& in, const std::filesystem::path& run_folder) {
  const SeedOption seed{shared.training.train.seed};
  const bool soft = o.teleclass.refinement.kind == "soft";
  const std::string& head = o.teleclass.training.head;
  if (soft ? head == "bilinear" : head == "none")
    throw usage_error("--teleclass.head {}: with --teleclass.refinement {} {}", head,
                      o.teleclass.refinement.kind,
                      soft ? "a student is trained, or none"
                           : "the bilinear head is trained; leave the option out");
  const FineTuning training = shared.fine_tuning();
  Pipeline pipeline(run_folder);
  pipeline.also_read = {"teleclass.refinement", "teleclass.head"};
  if (soft) pipeline.also_read.push_back("teleclass.targets");
  const LabelEncoding encoded = label_encoding(pipeline, shared, o, in);
  const EncoderFiles& encoder = encoded.encoder;
  const EncodingFiles& encoding = encoded.files;
  const auto augment = [&](const RefinedFiles& refined) {
    return pipeline.add("augmentation",
                        AugmentationStage{in.taxonomy, in.classes, encoding, refined, encoder,
                                          shared.infer, o.teleclass.augmentation, seed});
  };
  const auto infer = [&](const TrainedFiles& trained) {
    const TestEncodingFiles test =
        pipeline.add("test-encoding",
                     TestEncodingStage{trained, encoding, in.test, shared.shards, shared.infer});
    const auto corrected =
        correct_by_labels(pipeline, in.labels, trained, encoding, o.decode, soft);
    pipeline.add("inference", InferenceStage{trained, corrected, encoding, test, in.test,
                                             shared.infer, o.decode, o.submission});
  };
  if (soft) {
    const PosteriorFiles posterior = pipeline.add(
        "refinement", PosteriorStage{in.taxonomy, encoding, o.scoring.scores, o.soft_refinement,
                                     o.scoring.smoothing, o.scoring.tfidf, o.scoring.neighbours});
    augment(posterior);
    const std::optional<FineTuning> student =
        head == "none" ? std::nullopt : std::optional(training);
    const auto paths_student = [&](const std::optional<TargetFiles>& targets) {
      infer(
          pipeline.add("training", StudentStage{in.taxonomy, encoding, posterior, targets, in.train,
                                                encoder, shared.infer, o.scoring, student}));
    };
    if (o.teleclass.targets.kind != "cores") {
      paths_student(
          pipeline.add("hierarchy", SoftTargetStage{in.taxonomy, posterior, o.teleclass.targets}));
    } else {
      o.taxoclass.check();
      const SimilarityFiles memberships =
          pipeline.add("memberships", PathSimilarityStage{in.taxonomy, posterior, o.leaves()});
      const CoreFiles cores = pipeline.add(
          "hierarchy", CoreStage{in.taxonomy, encoding, memberships, o.taxoclass.cores});
      if (student)
        infer(pipeline.add("training",
                           ClassStudentStage{in.taxonomy, encoding, posterior, cores, in.train,
                                             encoder, shared.infer, o.scoring, *student}));
      else
        paths_student(std::nullopt);
    }
  } else {
    // The guide's times are those of its own refinement.
    const bool of_multi_gpu = o.teleclass.refinement.kind == "multi-gpu";
    if (of_multi_gpu) pipeline.reference_total = "70 to 90 min for all of it, on 4 GPUs 25 to 35";
    const PublishedRefinementFiles refined =
        pipeline.add("refinement", PublishedRefinementStage{in.taxonomy, in.classes, encoding,
                                                            encoder, o.class_prompt, shared.infer,
                                                            o.teleclass.refinement});
    const AugmentationFiles augmentation = augment(refined);
    const LabelFiles labels =
        pipeline.add("hierarchy", TrainingLabelStage{in.taxonomy, encoding, refined, augmentation});
    infer(pipeline.add("training",
                       BilinearStage{in.taxonomy, encoding, augmentation, labels, encoder,
                                     shared.shards, o.teleclass.training, training},
                       of_multi_gpu ? "50 to 60 min, on 4 GPUs 15 to 20" : ""));
  }
  return pipeline;
}

std::vector<std::pair<std::string, std::string>> teleclass_preset(const std::string& name,
                                                                  double expected_leaves) {
  if (name == "recommended")
    return {{"pipeline.adapt", "auto"},
            {"teleclass.targets", expected_leaves >= 2 ? "cores" : "sharpened"},
            temperature_for(expected_leaves)};
  // TELEClass (WWW 2025), section 5.1: AdamW 5e-5, weight decay 5e-6, batch 64, 5 epochs, length
  // 512, clip 1.0.
  std::vector<std::pair<std::string, std::string>> published = {
      {"scoring.class-texts", "name"}, {"scoring.descriptions", "false"},
      {"teleclass.head", "bilinear"},  {"teleclass.refinement", name},
      {"scoring.centring", "0"},       {"teleclass.augmentation", "auto"},
      {"train.encoder-lr", "5e-5"},    {"train.head-lr", "4e-3"},
      {"train.weight-decay", "5e-6"},  {"train.batch", "64"},
      {"train.base-batch", "64"},      {"train.epochs", "5"},
      {"train.max-length", "512"},     {"train.layers", "-1"},
      {"decode.mode", "top-k"}};
  if (name == "paper" || name == "code") return published;
  if (name != "multi-gpu") throw usage_error("--pipeline.preset {}: no such preset", name);
  // The multi-GPU variant: keyword descriptions, top-20 means, positive weight 10, threshold .5, 3
  // epochs.
  for (auto& [option, value] : published) {
    if (option == "scoring.class-texts") value = "keywords";
    if (option == "decode.mode") value = "threshold";
    if (option == "train.epochs") value = "3";
  }
  published.emplace_back("teleclass.positive-weight", "10");
  return published;
}

}  // namespace gpuhpc
