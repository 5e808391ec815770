#pragma once
// How both methods begin: the encoder that labels, as it is or after it has learnt from the
// unlabelled corpus.
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

// Adds the stages adaptation-texts and adaptation, those of `pretrain`, where options ask for them
// (Gururangan et al. 2020, task-adaptive pretraining).
EncoderFiles label_encoder(Pipeline& pipeline, const SharedOptions& shared,
                           const AdaptationOptions& options, const ScannedCorpus& corpus);

}  // namespace gpuhpc
