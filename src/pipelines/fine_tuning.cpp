#include "gpuhpc/pipelines/fine_tuning.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {

std::vector<TokenDataset> open_datasets(const std::filesystem::path& folder) {
  std::vector<TokenDataset> datasets;
  for (std::size_t i = 0; std::filesystem::exists(folder / std::to_string(i)); ++i)
    datasets.emplace_back(folder / std::to_string(i)).expect_random_reads();
  return datasets;
}

bool EncoderChoiceFiles::is_adapted() const { return read_json(choice) == "adapted"; }

std::filesystem::path EncoderFiles::path() const {
  return adapted && adapted->choice.is_adapted() ? adapted->trained.model : folder.path;
}

LoadedEncoder EncoderFiles::load(at::Device device) const {
  LoadedEncoder loaded = load_encoder(path(), device, pooling.kind());
  loaded.model.prompts.choose(prompt.given);
  return loaded;
}

std::unique_ptr<Tokenizer> EncoderFiles::tokenizer() const {
  return behind_prompt(load_tokenizer(path()), read_prompts(path()).text(prompt.given));
}

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
  return training_forward(encoder.device(), encoder.config().hidden_dropout,
                          encoder.config().attention_dropout, options, seed);
}

ForwardOptions training_forward(at::Device device, double published_hidden,
                                double published_attention, const FineTuning& options,
                                DropoutSeed seed) {
  const Precision precision = options.trainer.train.precision_kind(device);
  ForwardOptions forward;
  forward.compute = precision == Precision::bf16   ? at::kBFloat16
                    : precision == Precision::fp16 ? at::kHalf
                                                   : at::kFloat;
  forward.tf32 = precision == Precision::tf32;
  forward.checkpoint_layers = options.trainer.train.activation_checkpointing;
  const double rate = options.encoder.dropout;
  const double hidden = rate < 0 ? published_hidden : rate,
               attention = rate < 0 ? published_attention : rate;
  if ((hidden > 0 || attention > 0) && seed) {
    forward.hidden_dropout = hidden;
    forward.attention_dropout = attention;
    forward.generator = make_generator(device, *seed);
    // Attention on a GPU draws from LibTorch's own generator.
    if (device.is_cuda()) {
      at::Generator own = at::globalContext().defaultGenerator(device);
      own.set_current_seed(*seed);
    }
  }
  return forward;
}

double mean_loss(Task& task, std::span<const std::int64_t> items, const TrainOptions& options,
                 Communicator& comm) {
  const std::int64_t block = options.eval_batch > 0 ? options.eval_batch : 32;
  const at::NoGradGuard no_grad;
  const Range mine =
      blocks_of_rank(block_count(std::ssize(items), block), comm.rank(), comm.size());
  std::vector<double> terms;
  run_collectively(comm, [&] {
    for (std::int64_t b = mine.first; b < mine.last; ++b) {
      const Range range = block_items(b, std::ssize(items), block);
      const auto part = items.subspan(static_cast<std::size_t>(range.first),
                                      static_cast<std::size_t>(range.size()));
      const std::any loaded = task.load(part, std::nullopt);
      task.take(loaded);
      const LossSum loss = task.loss(part, std::nullopt);
      terms.insert(terms.end(), {loss.sum.item<double>(), loss.count});
    }
  });
  terms = comm.all_gather_v(std::span<const double>(terms));
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < terms.size(); i += 2) sum += terms[i], count += terms[i + 1];
  return sum / count;
}

TrainContext train_context(const StageContext& c, const TrainingOptions& o,
                           const TrainedFiles& out) {
  return {.comm = c.comm,
          .log = c.log,
          .device = c.device,
          .parallel = o.parallel,
          .profile = o.profile,
          .loader = o.loader,
          .checkpoints = c.checkpoints,
          .folder = out.folder(),
          .run_folder = c.run_folder,
          .stage = c.name,
          .task = c.task,
          .stop_requested = c.stop_requested};
}

std::filesystem::path train_or_export(Trainer& trainer, const StageContext& c,
                                      const TrainedFiles& out) {
  if (c.export_folder.empty()) {
    trainer.run();
    return out.model;
  }
  if (trainer.load_checkpoint() == 0)
    throw input_error(
        "--run.export: {} holds no checkpoint of the stage {} with these options; one is saved "
        "every --train.checkpoint-minutes, and when the run is asked to stop",
        c.run_folder.string(), c.name);
  if (trainer.state().best_step > 0) trainer.take_best();
  return c.export_folder;
}

}  // namespace gpuhpc
