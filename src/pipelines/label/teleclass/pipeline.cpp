#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

#include "gpuhpc/pipelines/label/shared_stages.hpp"
#include "gpuhpc/pipelines/label/teleclass/augmentation.hpp"
#include "gpuhpc/pipelines/label/teleclass/hierarchy.hpp"
#include "gpuhpc/pipelines/label/teleclass/refinement.hpp"
#include "gpuhpc/pipelines/label/teleclass/variants/bilinear_training.hpp"
#include "gpuhpc/pipelines/label/teleclass/variants/student_training.hpp"

namespace gpuhpc {

std::vector<Stage> teleclass_stages(const TeleclassPipelineOptions& options,
                                    const InputLayout& layout) {
  const auto given = [](std::initializer_list<std::filesystem::path> paths) {
    std::vector<std::filesystem::path> files;
    for (const auto& path : paths)
      if (!path.empty()) files.push_back(path);
    return files;
  };
  const auto bind =
      [&](void (*run)(const StageContext&, const TeleclassPipelineOptions&, const InputLayout&)) {
        return [=, o = options, l = layout](const StageContext& context) { run(context, o, l); };
      };
  const auto taxonomy = given({layout.labels, layout.hierarchy});
  const auto classes = given({layout.labels, layout.hierarchy, layout.keywords, layout.descriptions,
                              layout.generated_docs, layout.generated_labels});
  const bool soft = options.teleclass.refinement == "soft";
  return {
      encoding_stage(options, layout),
      {"refinement",
       {"teleclass.refinement", "scoring.temperature", "scoring.csls", "scoring.lexical",
        "scoring.name-votes", "scoring.smoothing-rounds", "teleclass.enrichment-terms", "tfidf.",
        "neighbours."},
       classes,
       {"encoding"},
       soft ? std::vector<std::string>{"paths.h5", "first_posterior.h5", "posterior.h5",
                                       "neighbours.h5", "tfidf.h5", "tfidf_rows.h5",
                                       "refined_core_classes.json"}
            : std::vector<std::string>{"class_vectors.h5", "init_core_classes.json",
                                       "enrichment.txt", "refined_core_classes.json"},
       bind(run_refinement)},
      {"augmentation",
       {"teleclass.augmentation", "teleclass.augment-below", "teleclass.augment-documents",
        "train.seed"},
       classes,
       {"encoding", "refinement"},
       {"generated_docs.txt", "generated_doc2label.json"},
       bind(run_augmentation)},
      {"hierarchy",
       {"teleclass.refinement", "teleclass.targets"},
       taxonomy,
       {"refinement", "augmentation"},
       soft ? std::vector<std::string>{"targets.h5", "documents_per_class.tsv"}
            : std::vector<std::string>{"labels.jsonl", "documents_per_class.tsv"},
       bind(run_hierarchy)},
      {"training",
       {"train.", "parallel.reduce-type", "teleclass.head", "teleclass.train-encoder",
        "teleclass.positive-weight", "scoring.smoothing-rounds"},
       taxonomy,
       {"encoding", "refinement", "augmentation", "hierarchy"},
       {"model", "metrics.jsonl", "ranks.jsonl"},
       bind(soft ? train_path_model : train_bilinear_model),
       free_training_options(),
       "50 to 60 min, on 4 GPUs 15 to 20"},
      inference_stage(options, layout, "training"),
  };
}

}  // namespace gpuhpc
