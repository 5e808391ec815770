#include "gpuhpc/stages/teleclass/pipeline.hpp"

#include "gpuhpc/stages/classify/encoding.hpp"
#include "gpuhpc/stages/classify/inference.hpp"
#include "gpuhpc/stages/teleclass/augmentation.hpp"
#include "gpuhpc/stages/teleclass/hierarchy.hpp"
#include "gpuhpc/stages/teleclass/refinement.hpp"
#include "gpuhpc/stages/teleclass/variants/bilinear_training.hpp"
#include "gpuhpc/stages/teleclass/variants/student_training.hpp"

namespace gpuhpc {

std::vector<Stage> teleclass_stages(const TeleclassPipelineOptions& options, const InputLayout& layout) {
  const auto given = [](std::initializer_list<std::filesystem::path> paths) {
    std::vector<std::filesystem::path> files;
    for (const auto& path : paths)
      if (!path.empty()) files.push_back(path);
    return files;
  };
  const auto bind = [&](void (*run)(const StageContext&, const TeleclassPipelineOptions&, const InputLayout&)) {
    return [=, o = options, l = layout](const StageContext& context) { run(context, o, l); };
  };
  const auto taxonomy = given({layout.labels, layout.hierarchy});
  const auto classes = given({layout.labels, layout.hierarchy, layout.keywords, layout.descriptions, layout.generated_docs, layout.generated_labels});
  auto classes_and_text = classes;
  classes_and_text.push_back(layout.train_corpus);
  classes_and_text.push_back(options.model.encoder);
  const std::vector<std::string> text = {"input.format", "input.id-field", "input.text-field"};
  const auto with_text = [&](std::vector<std::string> names) {
    names.insert(names.end(), text.begin(), text.end());
    return names;
  };
  const bool soft = options.teleclass.refinement == "soft";
  const auto encode = [=, o = options, l = layout](const StageContext& context) { run_encoding(context, o, l); };
  const auto infer = [=, o = options, l = layout](const StageContext& context) { run_inference(context, o, l, context.folder_of("training") / "model"); };
  return {
      {"encoding", with_text({"infer.", "prepare.", "scoring.class-texts", "scoring.descriptions", "scoring.centring", "model.encoder"}), classes_and_text, {},
       {"tokens", "documents.h5", "centred.h5", "classes.h5", "class_texts.txt", "llm_prompts.jsonl"}, encode},
      {"refinement", with_text({"teleclass.refinement", "scoring.temperature", "scoring.csls", "scoring.lexical", "scoring.name-votes",
                                "scoring.smoothing-rounds", "teleclass.enrichment-terms", "tfidf.", "neighbours."}), classes, {"encoding"},
       soft ? std::vector<std::string>{"paths.h5", "first_posterior.h5", "posterior.h5", "neighbours.h5", "tfidf.h5", "tfidf_rows.h5", "refined_core_classes.json"}
            : std::vector<std::string>{"class_vectors.h5", "init_core_classes.json", "enrichment.txt", "refined_core_classes.json"}, bind(run_refinement)},
      {"augmentation", with_text({"teleclass.augmentation", "teleclass.augment-below", "teleclass.augment-documents", "train.seed"}), classes, {"encoding", "refinement"},
       {"generated_docs.txt", "generated_doc2label.json"}, bind(run_augmentation)},
      {"hierarchy", {"teleclass.refinement", "teleclass.targets"}, taxonomy, {"refinement", "augmentation"},
       soft ? std::vector<std::string>{"targets.h5", "documents_per_class.tsv"} : std::vector<std::string>{"labels.jsonl", "documents_per_class.tsv"}, bind(run_hierarchy)},
      {"training", {"train.", "parallel.reduce-type", "teleclass.head", "teleclass.train-encoder", "teleclass.positive-weight", "scoring.smoothing-rounds"}, taxonomy,
       {"encoding", "refinement", "augmentation", "hierarchy"}, {"model", "metrics.jsonl", "ranks.jsonl"}, bind(soft ? train_path_model : train_bilinear_model),
       {"train.micro-batch", "train.activation-checkpointing", "train.checkpoint-every", "train.checkpoint-minutes", "train.keep"}},
      {"inference", with_text({"decode.mode", "decode.expected-leaves", "decode.minimum", "decode.maximum", "decode.threshold", "decode.k", "infer.",
                               "output.submission-header"}),
       {layout.test_corpus}, {"training"}, {"predictions.jsonl", "submission.csv"}, infer},
  };
}

}  // namespace gpuhpc
