#pragma once
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// What the bilinear head learns from: labels.jsonl, {"id", "positives": [..], "masked": [..]} a
// document, generated ones last.
void make_training_labels(const StageContext& context, const Taxonomy& taxonomy);

}  // namespace gpuhpc
