#include "gpuhpc/pipelines/embedding/training.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {

LearntRows open_rows(const PairTokenFiles& tokens, std::size_t set, const PairDataset& of) {
  LearntRows rows{.files = {},
                  .values = {},
                  .prompts = of.files.prompts_of(of.files.column_names()),
                  .options = of.loss};
  for (const auto& folder : {tokens.train_of(set), tokens.validation_of(set)}) {
    rows.files.push_back(open_datasets(folder));
    const std::vector<float> of_file = open_values(folder);
    rows.values.insert(rows.values.end(), of_file.begin(), of_file.end());
  }
  return rows;
}

// Batches hold rows of one data set; validation rows are never learnt from.
Course course_of(const EmbeddingTask& task, const LearntSets& learnt, const TrainOptions& options) {
  Course course = options.course();
  course.mixing = learnt.mixing;
  for (std::size_t i = 0; i < learnt.sets.size(); ++i) {
    const Range train = task.rows(i, 0), validation = task.rows(i, 1);
    for (std::int64_t item = validation.first; item < validation.last; ++item)
      course.validation_items.push_back(item);
    const PairDataset& set = learnt.sets[i];
    if (!set.name.empty())
      course.corpora.push_back({{train.first, validation.last}, set.weight, set.name});
    const std::int64_t first[] = {train.first};
    if (task.scope(first) == LossScope::global_batch) course.no_duplicates = true;
  }
  return course;
}

}  // namespace

void EmbeddingTrainingStage::run(const StageContext& c, const TrainedFiles& out) const {
  if (open_datasets(tokens.train_of(0)).empty()) {
    on_root(c.comm, [&] {
      create_folder(out.model);
      for (const std::filesystem::path& file : {out.metrics, out.ranks}) write_text_file(file, "");
    });
    return;
  }
  std::optional<LoadedEncoder> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<LearntRows> rows;
  std::optional<PairClassifier> head;
  run_collectively(c.comm, [&] {
    model.emplace(encoder.load(torch_device(c.device)));
    tokenizer = load_tokenizer(encoder.folder.path);
    const std::int64_t width = model->model.embedding.width(model->encoder.config().hidden_size);
    for (std::size_t i = 0; i < learnt.sets.size(); ++i) {
      const PairLossOptions& loss = learnt.sets[i].loss;
      rows.push_back(open_rows(tokens, i, learnt.sets[i]));
      if (embedding_loss(loss.loss).learns == Learns::classes)
        head.emplace(width, 1 + std::llround(std::ranges::max(rows.back().values)),
                     static_cast<std::uint64_t>(training.trainer.train.seed),
                     torch_device(c.device));
    }
  });
  Encoder& learner = model->encoder;
  learner.train_top_layers(training.encoder.layers);
  // Handed over, not kept: the arena has weights of its own, and those they were are freed.
  const auto parameters = [&] {
    std::vector<RatedParameters> all{
        {"encoder", training.encoder.encoder_rate, trained_parameters(learner)}};
    if (head) all.push_back({"head", training.encoder.head_rate, trained_parameters(*head)});
    return all;
  };
  ParameterArena arena(parameter_groups(parameters(), training.trainer.train), c.comm.size());
  const std::int64_t longest = learner.config().max_tokens(),
                     length = std::min(training.encoder.max_length, longest);
  if (length < training.encoder.max_length && c.comm.is_root())
    c.log->warn("--train.max-length {}: this model has {} positions; texts are cut to that",
                training.encoder.max_length, longest);
  if (c.comm.is_root()) {
    const PlannedModel planned{model->model.weights_folder.string(), learner.config()};
    PlannedWork work =
        planned_training(PlanJob::embedding, planned, training, c.device.cuda, c.comm.size());
    plan_rows(learnt.sets, work);
    log_memory(c.log, planned, work, training, length);
  }
  EmbeddingConfig embedding = model->model.embedding;
  embedding.max_tokens = length;
  EmbeddingTask task(
      std::move(rows), length, tokenizer->special().single,
      [&](const PackedIds& batch, DropoutSeed seed) {
        return learner.embed(pack_tokens(batch, learner.device()), embedding,
                             training_forward(learner, training, seed));
      },
      head ? &*head : nullptr);
  Trainer trainer(arena, task, training.trainer.train, train_context(c, training.trainer, out),
                  course_of(task, learnt, training.trainer.train));
  const std::filesystem::path folder = train_or_export(trainer, c, out);
  model->model.prompts = learnt_prompts(model->model.prompts, learnt.sets);
  on_root(c.comm, [&] {
    save_encoder_folder(folder, learner, embedding, model->model);
    if (!c.export_folder.empty()) seal_model(folder);  // else the model's card belongs to it
  });
}

}  // namespace gpuhpc
