#pragma once
#include <optional>

#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {

// Into a `model` folder with a trained encoder and a head over classes: the sentence encoder
// (`teacher`) and its posterior, which label new text alone or, with the head's leaf_odds as
// `student`, averaged with the head's, which is smoothed as the teacher's was. Collective.
void write_ensemble(const StageContext& context, const ScoredCorpus& corpus,
                    const EncoderFiles& teacher, bool transductive,
                    const std::optional<PathModel>& student, const std::filesystem::path& model);

}  // namespace gpuhpc
