#pragma once
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/class_graph.hpp"

namespace gpuhpc {

// Into a `model` folder with a trained encoder and a head over classes: the sentence encoder
// (`teacher`) and its posterior, which label new text alone or, with `student`, averaged with the
// head's, which is smoothed as the teacher's was. Collective.
void write_ensemble(const StageContext& context, const ScoredCorpus& corpus,
                    const EncoderFiles& teacher, bool transductive, const ClassGraphHead& head,
                    bool student, const std::filesystem::path& model);

}  // namespace gpuhpc
