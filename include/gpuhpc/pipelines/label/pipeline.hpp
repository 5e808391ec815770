#pragma once
// How both methods begin: the encoder that labels, as it is or after it has learnt from the
// unlabelled corpus.
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

// Adds, where options ask for them, the stage adaptation and one that prepares its texts: those of
// `pretrain` (Gururangan et al. 2020, task-adaptive pretraining), or of `train-embedding` on pairs
// that the corpus gives.
EncoderFiles label_encoder(Pipeline& pipeline, const SharedOptions& shared,
                           const AdaptationOptions& options, const ScannedCorpus& corpus);

}  // namespace gpuhpc
