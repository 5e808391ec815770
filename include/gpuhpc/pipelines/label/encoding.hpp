#pragma once
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// The first phase: texts of documents and classes to vectors (quality recipe, steps 1 and 2).
// Outputs:
//   tokens/        token shards of the training corpus, with its texts   documents.h5  "values"
//   (N,H) unit vectors centred.h5     "values" (N,H) x'                          classes.h5
//   "vectors" (C,H), "centred" (C,H) e', "document_mean" (H) class_texts.txt  what stood for each
//   class llm_prompts.jsonl  prompts for key terms, for whoever has an LLM
void run_encoding(const StageContext& context, const ClassifyOptions& options,
                  const InputLayout& layout);

}  // namespace gpuhpc
