#pragma once
// How both methods begin: the encoder that labels, as it is or after it has learnt from the
// unlabelled corpus, and what it makes of corpus and classes.
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/inputs.hpp"
#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

struct LabelEncoding {
  EncoderFiles encoder;
  EncodingFiles files;
};

// Adds the stage encoding, and before it, where options ask for them, the stage adaptation and
// those that prepare its texts: the texts of `pretrain` (Gururangan et al. 2020, task-adaptive
// pretraining), or for `train-embedding` pairs that the corpus gives.
LabelEncoding label_encoding(Pipeline& pipeline, const SharedOptions& shared,
                             const LabelOptions& options, const LabelInputs& inputs);

}  // namespace gpuhpc
