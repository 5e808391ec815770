#pragma once
// What the stages that train share: parameter groups, the encoder's forward options, and all that
// goes on beside the Trainer.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/metrics_log.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/train/batch_source.hpp"
#include "gpuhpc/train/checkpointer.hpp"
#include "gpuhpc/train/parameters.hpp"
#include "gpuhpc/train/profile.hpp"
#include "gpuhpc/train/slow_rank.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// The encoder's top layers and the head, each with its own rate, biases and LayerNorm weights
// without decay.
std::vector<ParameterGroup> encoder_and_head(Encoder& encoder, std::int64_t layers,
                                             const std::vector<ParameterSlot>& head,
                                             const TrainOptions& options);

// How the encoder computes one micro-batch; `seed` is the one that the Trainer gives to the loss.
// Without gradients nothing is dropped.
ForwardOptions training_forward(const Encoder& encoder, const TrainOptions& options,
                                std::uint64_t seed);

// What goes on beside one training: checkpoints, validation on documents held out, metrics.jsonl
// and ranks.jsonl of the stage, in the run folder events/ and, where --profile.steps asks for it,
// trace/; slow ranks are named.
//   TrainingRun run(context, options, arena, source);
//   Trainer trainer(arena, run.learnt(), loss, options.train, options.parallel, context.comm,
//   run.hooks(), run.between_gpus()); run.resume(trainer); run.finish(trainer, trainer.run(), out);
class TrainingRun {
 public:
  // Collective. All of these must outlive this object.
  TrainingRun(const StageContext& context, const TrainingOptions& options,
              const ParameterArena& arena, const BatchSource& source);
  const BatchSource& learnt() const {
    return parts_ ? parts_->learnt : source_;
  }  // the source without what validation looks at
  TrainHooks hooks();
  Communicator* between_gpus() const {
    return between_gpus_.get();
  }                               // none unless every rank has a GPU
  void resume(Trainer& trainer);  // collective: from the newest checkpoint, if there is one
  void finish(Trainer& trainer, const TrainSummary& summary,
              const TrainedFiles& out);  // collective: the best weights where those were asked
                                         // for, and the stage's files

 private:
  // What is learnt from, and what is only looked at after each epoch.
  struct Split {
    SubsetSource learnt, held_out;
  };
  static std::optional<Split> split(const BatchSource& source, const TrainOptions& options);
  double validate(Trainer& trainer);

  const StageContext& c_;
  const TrainingOptions& o_;
  const BatchSource& source_;
  std::filesystem::path
      lines_;  // metrics.jsonl, beside the checkpoints: it outlives a run that is stopped or killed
  MetricsLog metrics_;
  Checkpointer checkpointer_;
  SlowRankWatch slow_ranks_;
  Trace trace_;
  std::unique_ptr<Communicator> between_gpus_;
  std::optional<Split> parts_;
};

}  // namespace gpuhpc
