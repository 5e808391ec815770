#include "gpuhpc/pipelines/fine_tuning.hpp"

#include <ATen/Context.h>

namespace gpuhpc {

std::vector<ParameterGroup> parameter_groups(const std::vector<RatedParameters>& groups,
                                             const TrainOptions& options) {
  std::vector<ParameterGroup> all;
  for (const RatedParameters& group : groups)
    for (ParameterGroup& half :
         split_by_decay(group.name, group.learning_rate, options.weight_decay, group.parameters))
      all.push_back(std::move(half));
  return all;
}

ForwardOptions training_forward(const Encoder& encoder, const FineTuning& options,
                                DropoutSeed seed) {
  const Precision precision = options.trainer.train.precision_kind(encoder.device().is_cuda());
  ForwardOptions forward;
  forward.compute = precision == Precision::bf16   ? at::kBFloat16
                    : precision == Precision::fp16 ? at::kHalf
                                                   : at::kFloat;
  forward.tf32 = precision == Precision::tf32;
  forward.checkpoint_layers = options.trainer.train.activation_checkpointing;
  const EncoderConfig& published = encoder.config();
  const double rate = options.encoder.dropout;
  const double hidden = rate < 0 ? published.hidden_dropout : rate,
               attention = rate < 0 ? published.attention_dropout : rate;
  if ((hidden > 0 || attention > 0) && seed) {
    forward.hidden_dropout = hidden;
    forward.attention_dropout = attention;
    forward.generator = make_generator(encoder.device(), *seed);
    // Attention on a GPU draws from LibTorch's own generator.
    if (encoder.device().is_cuda()) {
      at::Generator own = at::globalContext().defaultGenerator(encoder.device());
      own.set_current_seed(*seed);
    }
  }
  return forward;
}

TrainContext train_context(const StageContext& c, const TrainingOptions& o,
                           const TrainedFiles& out) {
  return {.comm = c.comm,
          .log = c.log,
          .device = c.device,
          .parallel = o.parallel,
          .profile = o.profile,
          .checkpoints = c.checkpoints,
          .folder = out.folder(),
          .run_folder = c.run_folder,
          .stage = c.name,
          .task = c.task,
          .stop_requested = c.stop_requested};
}

}  // namespace gpuhpc
