#include "gpuhpc/stages/taxoclass/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/stages/classify/inference.hpp"
#include "gpuhpc/stages/taxoclass/classifier.hpp"
#include "gpuhpc/stages/taxoclass/cores.hpp"
#include "gpuhpc/stages/taxoclass/self_training.hpp"
#include "gpuhpc/stages/taxoclass/similarity.hpp"

namespace gpuhpc {

std::vector<Stage> taxoclass_stages(const TaxoclassPipelineOptions& options, const InputLayout& layout) {
  const auto bind = [&](void (*run)(const StageContext&, const TaxoclassPipelineOptions&, const InputLayout&)) {
    return [=, o = options, l = layout](const StageContext& context) { run(context, o, l); };
  };
  std::vector<std::filesystem::path> taxonomy{layout.labels, layout.hierarchy}, read = taxonomy;
  for (const auto& path : {layout.keywords, layout.descriptions, layout.generated_docs, layout.generated_labels})
    if (!path.empty()) read.push_back(path);
  read.insert(read.end(), {layout.train_corpus, options.model.encoder});
  if (options.taxoclass.similarity == "nli") {
    if (options.taxoclass.nli_model.empty()) throw usage_error("--taxoclass.similarity nli needs the folder of a cross-encoder: --taxoclass.nli-model DIR");
    if (options.taxoclass.hypothesis.find("{}") == std::string::npos) throw usage_error("--taxoclass.hypothesis `{}` has no {{}}, the place of the class's name", options.taxoclass.hypothesis);
    read.push_back(options.taxoclass.nli_model);
  }
  const std::vector<std::string> computed_freely = {"train.micro-batch", "train.activation-checkpointing", "train.checkpoint-every", "train.checkpoint-minutes", "train.keep"};
  const auto infer = [=, o = options, l = layout](const StageContext& context) { run_inference(context, o, l, context.folder_of("self-training") / "model"); };
  return {
      {"similarity", {"infer.", "prepare.", "scoring.", "tfidf.", "neighbours.", "model.encoder", "taxoclass.similarity", "taxoclass.calibration",
                      "taxoclass.nli-model", "taxoclass.hypothesis", "taxoclass.premise-tokens", "taxoclass.full-matrix", "decode.expected-leaves",
                      "input.format", "input.id-field", "input.text-field"}, read, {},
       {"tokens", "documents.h5", "centred.h5", "classes.h5", "class_texts.txt", "llm_prompts.jsonl", "paths.h5", "first_posterior.h5", "posterior.h5", "neighbours.h5",
        "tfidf.h5", "tfidf_rows.h5", "similarity.h5"}, bind(run_similarity)},
      {"cores", {"taxoclass.positive-confidence", "taxoclass.against-parents"}, taxonomy, {"similarity"},
       {"core_classes.json", "labels.jsonl", "cores_per_class.tsv"}, bind(run_cores)},
      {"classifier", {"train.", "parallel.reduce-type", "taxoclass.features", "taxoclass.graph-hidden", "taxoclass.graph-layers", "taxoclass.graph-residual",
                      "taxoclass.graph-lr", "taxoclass.scale", "taxoclass.held-out"}, taxonomy, {"similarity", "cores"},
       {"model", "metrics.jsonl", "ranks.jsonl", "graph.h5"}, bind(run_classifier), computed_freely},
      {"self-training", {"taxoclass.self-training-batches", "taxoclass.refresh", "taxoclass.self-training-encoder-lr", "taxoclass.self-training-head-lr",
                         "taxoclass.labels-from"}, taxonomy,
       {"similarity", "cores", "classifier"}, {"model", "metrics.jsonl", "ranks.jsonl", "self_training.tsv"}, bind(run_self_training), computed_freely},
      {"inference", {"decode.mode", "decode.expected-leaves", "decode.minimum", "decode.maximum", "decode.threshold", "decode.k", "infer.", "output.submission-header",
                     "input.format", "input.id-field", "input.text-field"}, {layout.test_corpus}, {"self-training"}, {"predictions.jsonl", "submission.csv"},
       infer},
  };
}

}  // namespace gpuhpc
