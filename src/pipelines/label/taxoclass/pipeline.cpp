#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/shared_stages.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"
#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"
#include "gpuhpc/pipelines/label/taxoclass/cores.hpp"
#include "gpuhpc/pipelines/label/taxoclass/self_training.hpp"
#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"

namespace gpuhpc {

std::vector<Stage> taxoclass_stages(const TaxoclassPipelineOptions& options,
                                    const InputLayout& layout) {
  const auto bind =
      [&](void (*run)(const StageContext&, const TaxoclassPipelineOptions&, const InputLayout&)) {
        return [=, o = options, l = layout](const StageContext& context) { run(context, o, l); };
      };
  const std::vector<std::filesystem::path> taxonomy{layout.labels, layout.hierarchy};
  const std::string& backend = options.taxoclass.similarity;
  if (backend == "nli" && options.taxoclass.nli_model.empty())
    throw usage_error(
        "--taxoclass.similarity nli needs the folder of a cross-encoder: --taxoclass.nli-model "
        "DIR");
  if (backend != "embedding" && options.taxoclass.hypothesis.find("{}") == std::string::npos)
    throw usage_error("--taxoclass.hypothesis `{}` has no {{}}, the place of the class's name",
                      options.taxoclass.hypothesis);
  if (options.taxoclass.link == "sigmoid-exp" && options.taxoclass.labels_from == "ensemble")
    throw usage_error(
        "--taxoclass.link sigmoid-exp gives no probability below one half, which the ensemble "
        "needs; give --taxoclass.labels-from classifier");
  const auto posterior = [=, o = options, l = layout](const StageContext& context) {
    Taxonomy classes;
    together(context.comm, [&] { classes = Taxonomy::load(l.labels, l.hierarchy); });
    find_posterior(context, o, classes, context.folder_of("encoding"));
  };
  std::vector<std::filesystem::path> scored = taxonomy;
  if (backend == "nli") scored.push_back(options.taxoclass.nli_model);
  std::vector<std::string> before = {"encoding", "posterior"};
  std::vector<Stage> stages = {
      encoding_stage(options, layout),
      {"posterior",
       {"scoring.", "tfidf.", "neighbours."},
       taxonomy,
       {"encoding"},
       {"paths.h5", "first_posterior.h5", "posterior.h5", "neighbours.h5", "tfidf.h5",
        "tfidf_rows.h5"},
       posterior},
  };
  if (backend == "pair") {
    stages.push_back({"pair-model",
                      {"train.", "parallel.reduce-type", "taxoclass.pair-examples",
                       "taxoclass.pair-epochs", "taxoclass.pair-lr", "taxoclass.hypothesis",
                       "taxoclass.premise-tokens", "decode.expected-leaves"},
                      taxonomy,
                      before,
                      {"model", "metrics.jsonl", "ranks.jsonl"},
                      bind(run_pair_model),
                      free_training_options()});
    before.push_back("pair-model");
  }
  stages.insert(
      stages.end(),
      {
          {"similarity",
           {"infer.", "scoring.temperature", "taxoclass.similarity", "taxoclass.calibration",
            "taxoclass.nli-model", "taxoclass.hypothesis", "taxoclass.premise-tokens",
            "taxoclass.full-matrix", "decode.expected-leaves"},
           scored,
           before,
           {"similarity.h5"},
           bind(run_similarity),
           {},
           "60 min, on an A6000 15"},
          {"cores",
           {"taxoclass.positive-confidence", "taxoclass.against-parents"},
           taxonomy,
           {"encoding", "similarity"},
           {"core_classes.json", "labels.jsonl", "cores_per_class.tsv"},
           bind(run_cores)},
          {"classifier",
           {"train.", "parallel.reduce-type", "taxoclass.features", "taxoclass.graph-hidden",
            "taxoclass.graph-layers", "taxoclass.graph-residual", "taxoclass.graph-lr",
            "taxoclass.scale", "taxoclass.link", "taxoclass.held-out"},
           taxonomy,
           {"encoding", "posterior", "cores"},
           {"model", "metrics.jsonl", "ranks.jsonl", "graph.h5"},
           bind(run_classifier),
           free_training_options(),
           "120 min, on an A6000 45"},
          {"self-training",
           {"taxoclass.self-training-batches", "taxoclass.refresh",
            "taxoclass.self-training-encoder-lr", "taxoclass.self-training-head-lr",
            "taxoclass.labels-from"},
           taxonomy,
           {"encoding", "posterior", "cores", "classifier"},
           {"model", "metrics.jsonl", "ranks.jsonl", "self_training.tsv"},
           bind(run_self_training),
           free_training_options(),
           "90 min, on an A6000 35"},
          inference_stage(options, layout, "self-training"),
      });
  return stages;
}

}  // namespace gpuhpc
