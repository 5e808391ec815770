#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/config/options.hpp"
#include "gpuhpc/train/loss_scaler.hpp"
#include "gpuhpc/train/schedule.hpp"

namespace gpuhpc {

struct OptimizerOptions {
  double beta1 = .9;
  double beta2 = .999;
  double epsilon = 1e-8;
};

// Type of the matrix products; parameters, optimizer state, softmax and loss are fp32 in all of
// them.
enum class Precision {
  fp32,
  // fp32 data, products on the tensor cores of a GPU with 10 bits of mantissa; fp32 on a processor
  tf32,
  bf16,
  fp16,  // with dynamic loss scaling
};

// Items [first, last) of a task, whose batches hold no others.
struct CorpusItems {
  Range items;
  double weight = 1;
  std::string name = {};  // in what is logged
};

// How the batches of several corpora follow each other.
enum class Mixing {
  // Spread over the epoch, which goes through each corpus `weight` times.
  proportional,
  // In rounds of `weight` batches each, a whole number, as long as every corpus has new ones when a
  // round begins.
  round_robin,
};

// How long a training goes on, over what, and how its rates move: the user's (TrainOptions::course)
// or, where a job decides that itself, its own.
struct Course {
  std::int64_t epochs = 1, max_steps = 0;  // max_steps above 0: instead of epochs
  double warmup = 0;
  Decay decay = Decay::constant;
  double validation = 0;                            // share of the items that is held out
  std::vector<std::int64_t> validation_items = {};  // held out in place of a share
  bool restore_best = false;
  std::vector<CorpusItems> corpora = {};  // none: all items
  Mixing mixing = Mixing::proportional;
  // no two items with one of Task::keys in a batch, but in an epoch's last one where less than half
  // a batch is left
  bool no_duplicates = false;
};

// Section [train]. Defaults are those of the student (quality recipe, step 11).
struct TrainOptions {
  static constexpr const char* section = "train";
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;       // above 0: so many updates instead
  std::int64_t batch = 32;          // documents per update, over all ranks
  std::int64_t batch_per_rank = 0;  // above 0: the batch is so many for each rank instead
  // above 0: the batch is as many documents as fit these tokens instead
  std::int64_t batch_tokens = 0;
  // Documents a forward and backward: cut from the batch alone, so that each micro-batch gives the
  // same gradient whoever computes it. 0: one a rank (faster on a GPU; rounding then depends on the
  // number of ranks). -1 (auto): the largest that fits memory.
  std::int64_t micro_batch = 8;
  // documents of a forward pass over held-out ones; 0: those of the training's, 32 around it
  std::int64_t eval_batch = 0;
  std::string rate_rule = "sqrt";   // none | linear | sqrt
  std::int64_t base_batch = 32;     // documents; the batch that the rates above are meant for
  std::string optimizer = "adamw";  // adamw | lamb | adafactor
  double weight_decay = .01;
  double warmup = .1;            // below 1: share of all updates; from 1: updates
  std::string decay = "linear";  // linear | cosine | constant | inverse-sqrt
  double clip = 1;               // largest gradient norm; 0: no clipping
  // keep each layer's input alone, compute the layer again in the backward pass
  bool activation_checkpointing = false;
  // What is given up, step by step, when one document alone does not fit memory:
  // "section.option=value .. ; section.option=value .."
  std::string on_out_of_memory;
  std::string precision = "auto";
  std::int64_t seed = 42;
  double beta1 = .9, beta2 = .999, epsilon = 1e-8;
  // updates skipped in a row (not finite) before the run is given up
  std::int64_t max_skipped = 20;
  // fp16: the first scale; losses are sums over a micro-batch, so less than the usual 65536
  double loss_scale = 4096;
  std::int64_t loss_scale_interval = 500;  // fp16: finite updates before the scale doubles

  // share of the documents that is held out; its mean loss is computed after each epoch
  double validation = 0;
  std::int64_t validate_every = 0;  // updates; 0: after each epoch
  std::int64_t patience = 0;  // validations in a row, none the best, that end the training; 0: none
  std::string restore = "last";  // last | best: weights that are left at the end; best: of the
                                 // best validation

  // Checkpoints, where the trainer was given a folder for them; one that is asked to stop saves one
  // in any case.
  std::int64_t checkpoint_every = 0;  // steps; 0: by time alone
  double checkpoint_minutes = 10;     // 0: by steps alone
  std::int64_t keep = 2;  // newest ones that stay, beside the one of the best validation

  // Throws for values that contradict each other; `given`: what the user wrote;
  // `has_validation_items`: the job brings its own (Course::validation_items).
  void check(const config::OptionSet& given, bool has_validation_items = false) const;
  Course course() const;
  std::int64_t global_batch(int ranks) const {
    return batch_per_rank > 0 ? batch_per_rank * ranks : batch;
  }
  // auto: bf16 on GPUs and on processors that multiply bf16, else fp32.
  Precision precision_kind(c10::Device device) const;
  LossScalerOptions scaler_options(c10::Device device) const;
  OptimizerOptions optimizer_options() const { return {beta1, beta2, epsilon}; }
  Decay decay_kind() const;
};

const char* name_of(Precision precision);

// --train.micro-batch where nobody gives it: what the guides take for BERT-base on a GPU of so much
// memory, the default (for processors) on a smaller one or none.
std::int64_t usual_micro_batch(std::int64_t gpu_bytes);

void declare(config::Section& section, TrainOptions& options);

}  // namespace gpuhpc
