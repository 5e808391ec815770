#include "gpuhpc/app/plan_trial.hpp"

#include <ATen/ops/full_like.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/nn/embedding_losses.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t updates = 3;
constexpr std::int64_t classes = 64;  // of the classifier

// `count` texts of `length` tokens each, drawn by the item's number.
PackedIds made_up(std::span<const std::int64_t> items, std::int64_t stream, std::int64_t length,
                  std::int64_t vocabulary) {
  PackedIds ids;
  const TextTemplate form;
  for (const std::int64_t item : items) {
    RandomStream random(static_cast<std::uint64_t>(item), static_cast<std::uint64_t>(stream));
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < length; ++i)
      tokens.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))));
    ids.add(item, tokens, form);
  }
  return ids;
}

// What all of them are: items of one length.
class TrialTask : public Task {
 public:
  TrialTask(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
            const FineTuning& tuning)
      : work_(work), batch_(batch), tuning_(tuning), vocabulary_(model.vocabulary()) {}
  std::int64_t size() const override { return updates * batch_.documents * batch_.micro_batches; }
  std::int64_t cost(std::int64_t) const override { return batch_.length * work_.columns; }
  virtual std::vector<RatedParameters> parameters() = 0;
  ForwardOptions forward(at::Device device, DropoutSeed seed) const {
    return training_forward(device, work_.dropout, work_.attention_dropout, tuning_, seed);
  }

 protected:
  PackedIds texts(std::span<const std::int64_t> items, std::int64_t column, std::int64_t length) {
    return made_up(items, column, length, vocabulary_);
  }
  const PlannedWork& work_;
  const PlannedBatch& batch_;
  const FineTuning& tuning_;
  std::int64_t vocabulary_;
};

class Seq2SeqTrial final : public TrialTask {
 public:
  Seq2SeqTrial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
               const FineTuning& tuning, at::Device device)
      : TrialTask(model, work, batch, tuning), model_(model.t5(), device) {
    model_.initialise(1);
    model_.learn_everything();
  }
  std::vector<RatedParameters> parameters() override {
    return {{"model", 1e-4, trained_parameters(model_)}};
  }
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override {
    const at::Device device = model_.device();
    const PackedIds sources = texts(items, 0, batch_.length),
                    targets = texts(items, 1, batch_.target_length);
    return {model_.loss(pack_tokens(sources, device), pack_tokens(targets, device),
                        seed ? work_.label_smoothing : 0, forward(device, seed)),
            static_cast<double>(targets.token_ids.size())};
  }

 private:
  T5 model_;
};

class EncoderTrial : public TrialTask {
 public:
  EncoderTrial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
               const FineTuning& tuning, at::Device device)
      : TrialTask(model, work, batch, tuning), encoder_(model.encoder(), device, model.pooler) {
    encoder_.initialise(1);
    encoder_.train_top_layers(work.trained_layers);
  }
  std::vector<RatedParameters> parameters() override {
    return {{"encoder", 1e-5, trained_parameters(encoder_)}};
  }

 protected:
  Encoder encoder_;
  EmbeddingConfig embedding_{.normalise = true};
};

class PairTrial final : public EncoderTrial {
 public:
  using EncoderTrial::EncoderTrial;
  LossScope scope(std::span<const std::int64_t>) const override {
    return work_.over_batch ? LossScope::global_batch : LossScope::item;
  }
  at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed seed) override {
    PackedIds all = texts(items, 0, batch_.length);
    const TextTemplate form;
    for (std::int64_t c = 1; c < work_.columns; ++c) {
      const PackedIds column = texts(items, static_cast<int>(c), batch_.length);
      for (std::int64_t i = 0; i < column.size(); ++i) {
        const auto first = static_cast<std::size_t>(column.offsets[static_cast<std::size_t>(i)]),
                   last = static_cast<std::size_t>(column.offsets[static_cast<std::size_t>(i) + 1]);
        all.add(items[static_cast<std::size_t>(i)],
                std::span(column.token_ids).subspan(first, last - first), form);
      }
    }
    const at::Tensor vectors = encoder_.embed(pack_tokens(all, encoder_.device()), embedding_,
                                              forward(encoder_.device(), seed));
    return vectors.reshape({work_.columns, std::ssize(items), -1})
        .transpose(0, 1)
        .reshape({std::ssize(items), -1});
  }
  // Of one column: with itself.
  LossSum batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) override {
    std::vector<at::Tensor> columns = rows.chunk(work_.columns, 1);
    if (columns.size() == 1) columns.push_back(columns[0]);
    return {in_batch_negatives(columns, 20), static_cast<double>(items.size())};
  }
};

class ClassifierTrial final : public EncoderTrial {
 public:
  ClassifierTrial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                  const FineTuning& tuning, at::Device device)
      : EncoderTrial(model, work, batch, tuning, device),
        class_vectors_(classes, model.hidden()),
        head_(std::as_const(class_vectors_).view(),
              std::vector<float>(static_cast<std::size_t>(model.hidden())),
              std::vector<float>(classes), {}, device) {}
  std::vector<RatedParameters> parameters() override {
    return {{"encoder", 1e-5, trained_parameters(encoder_)},
            {"head", 1e-3, trained_parameters(head_)}};
  }
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override {
    const at::Device device = encoder_.device();
    const at::Tensor logits = head_.logits(encoder_.embed(
        pack_tokens(texts(items, 0, batch_.length), device), embedding_, forward(device, seed)));
    return {
        soft_target_cross_entropy(logits, at::full_like(logits, 1. / static_cast<double>(classes))),
        static_cast<double>(items.size())};
  }

 private:
  Matrix class_vectors_;
  PathClassifier head_;
};

class MaskedTrial final : public TrialTask {
 public:
  MaskedTrial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
              const FineTuning& tuning, at::Device device)
      : TrialTask(model, work, batch, tuning),
        model_{{{}, Encoder(model.encoder(), device)},
               MaskedLanguageHead(model.encoder(), 1, device)} {
    model_.base.encoder.initialise(1);
    model_.base.encoder.train_top_layers(work.trained_layers);
  }
  std::vector<RatedParameters> parameters() override {
    return {{"encoder", 1e-5, trained_parameters(model_.base.encoder)},
            {"head", 1e-5, trained_parameters(model_.head)}};
  }
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override {
    const PackedIds ids = texts(items, 0, batch_.length);
    const std::int64_t each = std::max<std::int64_t>(
        1, std::llround(work_.masked * static_cast<double>(batch_.length - 2)));
    std::vector<std::int64_t> places, targets;
    for (std::int64_t i = 0; i < std::ssize(items); ++i)
      for (std::int64_t k = 0; k < each; ++k) {
        places.push_back(i * batch_.length + k);
        targets.push_back(ids.token_ids[static_cast<std::size_t>(places.back())]);
      }
    const at::Device device = model_.base.encoder.device();
    return {model_.loss(pack_tokens(ids, device), places, targets, forward(device, seed)),
            static_cast<double>(places.size())};
  }

 private:
  MaskedLanguageModel model_;
};

std::unique_ptr<TrialTask> make_task(const PlannedModel& model, const PlannedWork& work,
                                     const PlannedBatch& batch, const FineTuning& tuning,
                                     at::Device device) {
  switch (work.job) {
    case PlanJob::seq2seq:
      return std::make_unique<Seq2SeqTrial>(model, work, batch, tuning, device);
    case PlanJob::pretrain:
      return std::make_unique<MaskedTrial>(model, work, batch, tuning, device);
    case PlanJob::embedding:
      return std::make_unique<PairTrial>(model, work, batch, tuning, device);
    default:
      return std::make_unique<ClassifierTrial>(model, work, batch, tuning, device);
  }
}

}  // namespace

TrialResult run_trial(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                      const Options& options, const DeviceChoice& device, Communicator& comm) {
  FineTuning tuning = options.shared.fine_tuning();
  TrainOptions& train = tuning.trainer.train;
  train.max_steps = updates;
  train.batch = batch.documents * batch.micro_batches;
  train.batch_per_rank = train.batch_tokens = train.validate_every = train.patience = 0;
  train.micro_batch = batch.documents;
  train.validation = train.warmup = 0;
  train.restore = "last";
  train.precision = work.precision;
  train.activation_checkpointing = work.checkpointing;
  train.optimizer = work.optimizer;
  tuning.encoder.dropout = -1;  // the rates of `work`
  tuning.trainer.parallel.strategy = work.zero1 ? "zero1" : "ddp";
  tuning.trainer.parallel.reproducible = work.reproducible;

  reset_host_memory_peak();
  if (device.cuda) reset_device_memory_peak(device.index);
  const std::int64_t before = host_memory().used;
  const std::unique_ptr<TrialTask> task =
      make_task(model, work, batch, tuning, torch_device(device));
  ParameterArena arena(parameter_groups(task->parameters(), train), comm.size());
  TrialResult result;
  Trainer trainer(
      arena, *task, train,
      {.comm = comm,
       .device = device,
       .parallel = tuning.trainer.parallel,
       .room_for_graphs = 0,  // as planned
       .report = [&](const StepReport& step) {
         result.ran_out |= step.micro_batch < batch.documents;
         if (step.step > 1 && (result.step_seconds == 0 || step.step_seconds < result.step_seconds))
           result.step_seconds = step.step_seconds;
       }});
  try {
    trainer.run();
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory || !error.on_all_ranks()) throw;
    result.ran_out = true;
  }
  result.peak = device.cuda ? device_memory(device.index).peak : host_memory().peak - before;
  return result;
}

}  // namespace gpuhpc
