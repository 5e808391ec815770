#include "gpuhpc/train/options.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"

namespace gpuhpc {

void TrainOptions::check(const config::OptionSet& given, bool has_validation_items) const {
  // A default that is given again, as in a run's config.ini, contradicts nothing.
  const TrainOptions defaults;
  for (const auto& [other, changed] :
       {std::pair{"batch", batch != defaults.batch}, std::pair{"batch-tokens", batch_tokens > 0}})
    if (batch_per_rank > 0 && changed && given.given(std::string("train.") + other))
      throw usage_error(
          "--train.batch-per-rank {} and --train.{} both say how large a batch is; give one of "
          "them",
          batch_per_rank, other);
  if (validation > 0 || has_validation_items) return;
  if (restore == "best")
    throw configuration_error(
        "--train.restore best needs a validation to choose by; give --train.validation too (a "
        "share of the documents, .1 for instance), or use --train.restore last");
  if (patience > 0 || validate_every > 0)
    throw configuration_error(
        "--train.{} needs a validation; give --train.validation too (a share of the documents, .1 "
        "for instance), or 0",
        patience > 0 ? fmt::format("patience {}", patience)
                     : fmt::format("validate-every {}", validate_every));
}

Course TrainOptions::course() const {
  return {.epochs = epochs,
          .max_steps = max_steps,
          .warmup = warmup,
          .decay = decay_kind(),
          .validation = validation,
          .restore_best = restore == "best"};
}

Precision TrainOptions::precision_kind(c10::Device device) const {
  for (const Precision kind : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16})
    if (precision == name_of(kind)) return kind;
  if (device.is_cuda()) return multiplies_bf16(device.index()) ? Precision::bf16 : Precision::fp16;
  return kernels::prefers_bf16(kernels::best_isa()) ? Precision::bf16 : Precision::fp32;
}

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  throw internal_error("precision {} is unknown", static_cast<int>(precision));
}

// Cards that are sold as 16, 24 and 48 GB have a little less, or have it in GiB.
std::int64_t usual_micro_batch(std::int64_t gpu_bytes) {
  constexpr std::int64_t gigabyte = 1'000'000'000;
  return gpu_bytes >= 44 * gigabyte   ? 32
         : gpu_bytes >= 22 * gigabyte ? 24
         : gpu_bytes >= 14 * gigabyte ? 16
                                      : TrainOptions{}.micro_batch;
}

LossScalerOptions TrainOptions::scaler_options(c10::Device device) const {
  if (precision_kind(device) != Precision::fp16) return {.scale = 1, .dynamic = false};
  return {.scale = loss_scale, .growth_interval = loss_scale_interval, .dynamic = true};
}

Decay TrainOptions::decay_kind() const {
  if (decay == "inverse-sqrt") return Decay::inverse_sqrt;
  if (decay == "cosine") return Decay::cosine;
  return decay == "constant" ? Decay::constant : Decay::linear;
}

void declare(config::Section& section, TrainOptions& options) {
  constexpr double many = 1e12;
  section.option("epochs", options.epochs, "passes over the documents").range(0, many).common();
  section
      .option("max-steps", options.max_steps,
              "updates, in place of passes over the documents (0: --train.epochs counts)")
      .range(0, many);
  section.option("batch", options.batch, "documents per update, over all ranks")
      .range(1, many)
      .unit("documents")
      .common();
  section
      .option("batch-per-rank", options.batch_per_rank,
              "documents per update on each rank, in place of a number over all ranks (0: "
              "--train.batch counts)")
      .range(0, many)
      .unit("documents");
  section
      .option("batch-tokens", options.batch_tokens,
              "tokens per update, over all ranks, in place of documents (0: --train.batch counts)")
      .range(0, many)
      .unit("tokens");
  section
      .option(
          "micro-batch", options.micro_batch,
          "documents computed at once; a rank adds up the gradients of its micro-batches (0: "
          "one micro-batch per rank; auto: the most that fit memory, on processors the fastest of "
          "those, tried at the start); where it is not given a GPU of 16 GB takes 16, of 24 GB 24, "
          "of 48 GB and more 32")
      .range(-1, many)
      .word("auto", -1)
      .unit("documents")
      .execution();
  section
      .option("eval-batch", options.eval_batch,
              "documents computed at once where losses of held-out ones are measured (0: the "
              "micro-batch during the training, 32 before and after it)")
      .range(0, many)
      .unit("documents")
      .execution();
  section
      .option("lr-rule", options.rate_rule,
              "how learning rates follow the batch: x batch / base-batch, its root, or not")
      .one_of({"none", "linear", "sqrt"});
  section
      .option("base-batch", options.base_batch, "the batch that the learning rates are meant for")
      .range(1, many)
      .unit("documents");
  section
      .option(
          "optimizer", options.optimizer,
          "AdamW, LAMB for batches of thousands, or Adafactor as T5 was trained with: rates are "
          "relative to the weights' size (1e-2 falling with the root of the steps, or 1e-3)")
      .one_of({"adamw", "lamb", "adafactor"});
  section
      .option("weight-decay", options.weight_decay,
              "decoupled weight decay; biases and LayerNorm weights have none")
      .range(0, 1);
  section
      .option(
          "warmup", options.warmup,
          "rise of the learning rate: below 1 a share of all updates, from 1 a number of updates")
      .range(0, many);
  section.option("decay", options.decay, "fall of the learning rate after the warm-up")
      .one_of({"linear", "cosine", "constant", "inverse-sqrt"});
  section.option("clip", options.clip, "largest norm of the gradient (0: no clipping)")
      .range(0, many);
  section
      .option("activation-checkpointing", options.activation_checkpointing,
              "keep only each encoder layer's input and compute the layer again for its "
              "gradient: far less memory, a third more time, same result")
      .execution();
  section
      .option("on-out-of-memory", options.on_out_of_memory,
              "what is tried, one after the other, when a training does not fit memory even one "
              "document at a time: `section.option=value`, several of one step with blanks between "
              "them, steps with semicolons")
      .execution();
  section
      .option("precision", options.precision,
              "type of the matrix products; parameters, sums and losses are always fp32; fp16 "
              "scales the loss; auto takes bf16 where it is faster, fp16 on older GPUs, else fp32")
      .one_of({"auto", "fp32", "tf32", "bf16", "fp16"})
      .common();
  section.option("seed", options.seed, "of the shuffle and of dropout").range(0, many);
  section.option("adam-beta1", options.beta1, "decay of the mean gradient").range(0, .999999);
  section.option("adam-beta2", options.beta2, "decay of the mean squared gradient")
      .range(0, .999999);
  section.option("adam-epsilon", options.epsilon, "added to the root of the mean square")
      .range(0, 1);
  section
      .option("max-skipped", options.max_skipped,
              "updates in a row that may be skipped for gradients that are not finite")
      .range(0, many);
  section
      .option("loss-scale", options.loss_scale,
              "fp16: first factor of the loss; halved when gradients are not finite")
      .range(1e-6, 1e9);
  section
      .option("loss-scale-interval", options.loss_scale_interval,
              "fp16: finite updates in a row before the factor doubles")
      .range(1, many);
  section
      .option("validation", options.validation,
              "share of the training documents that is held out; after each epoch their mean loss "
              "is computed (0: none)")
      .range(0, .9);
  section
      .option("validate-every", options.validate_every,
              "updates between validations (0: after each epoch)")
      .range(0, many);
  section
      .option("patience", options.patience,
              "validations in a row that may pass without a best one; then training ends (0: it "
              "goes on)")
      .range(0, many);
  section
      .option("restore", options.restore,
              "weights that the model gets: of the last update, or of the best validation (the "
              "least loss, or what the job measures)")
      .one_of({"last", "best"});
  section
      .option("checkpoint-every", options.checkpoint_every,
              "updates between checkpoints (0: by time alone)")
      .range(0, many)
      .execution();
  section
      .option("checkpoint-minutes", options.checkpoint_minutes,
              "time between checkpoints; a run that is killed loses no more, one that gets SIGTERM "
              "or SIGUSR1 nothing (0: by updates alone)")
      .range(0, many)
      .unit("minutes")
      .execution();
  section.option("keep", options.keep, "newest checkpoints that stay").range(1, many).execution();
}

}  // namespace gpuhpc
