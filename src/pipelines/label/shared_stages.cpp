#include "gpuhpc/pipelines/label/shared_stages.hpp"

#include "gpuhpc/pipelines/label/encoding.hpp"
#include "gpuhpc/pipelines/label/inference.hpp"

namespace gpuhpc {

std::vector<std::string> with_corpus_options(std::vector<std::string> names) {
  names.insert(names.end(), {"input.format", "input.id-field", "input.text-field"});
  return names;
}

std::vector<std::string> free_training_options() {
  return {"train.micro-batch", "train.activation-checkpointing", "train.checkpoint-every",
          "train.checkpoint-minutes", "train.keep"};
}

Stage encoding_stage(const ClassifyOptions& options, const InputLayout& layout) {
  std::vector<std::filesystem::path> files{layout.labels, layout.train_corpus,
                                           options.model.encoder};
  for (const auto& path : {layout.hierarchy, layout.keywords, layout.descriptions,
                           layout.generated_docs, layout.generated_labels})
    if (!path.empty()) files.push_back(path);
  return {"encoding",
          with_corpus_options({"infer.", "prepare.", "scoring.class-texts", "scoring.descriptions",
                               "scoring.centring", "model.encoder"}),
          files,
          {},
          {"tokens", "documents.h5", "centred.h5", "classes.h5", "class_texts.txt",
           "llm_prompts.jsonl"},
          [=](const StageContext& context) { run_encoding(context, options, layout); }};
}

Stage inference_stage(const ClassifyOptions& options, const InputLayout& layout,
                      const std::string& trained) {
  std::vector<std::string> outputs{"predictions.jsonl", "submission.csv"};
  if (!layout.test_serves_as_train) outputs.emplace_back("tokens");
  return {"inference",
          with_corpus_options({"decode.mode", "decode.expected-leaves", "decode.minimum",
                               "decode.maximum", "decode.threshold", "decode.k", "infer.",
                               "output.submission-header"}),
          {layout.test_corpus},
          {"encoding", trained},
          outputs,
          [=](const StageContext& context) {
            run_inference(context, options, layout, context.folder_of(trained) / "model");
          }};
}

}  // namespace gpuhpc
