#include "gpuhpc/pipelines/embedding/training.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

void EmbeddingTrainingStage::run(const StageContext& c, const TrainedFiles& out) const {
  std::optional<LoadedEncoder> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::vector<TokenDataset>> files;
  std::vector<float> values;
  std::optional<PairClassifier> head;
  run_collectively(c.comm, [&] {
    model.emplace(encoder.load(torch_device(c.device)));
    tokenizer = load_tokenizer(encoder.folder.path);
    for (const auto& folder : {tokens.train, tokens.validation}) {
      files.push_back(open_columns(folder));
      const std::vector<float> of_file = open_values(folder);
      values.insert(values.end(), of_file.begin(), of_file.end());
    }
    const std::int64_t width = model->model.embedding.width(model->encoder.config().hidden_size);
    if (embedding_loss(loss.loss).learns == Learns::classes)
      head.emplace(width, 1 + std::llround(std::ranges::max(values)),
                   static_cast<std::uint64_t>(training.trainer.train.seed), torch_device(c.device));
    for (const std::int64_t dimensions : loss.dimensions())
      if (dimensions > width)
        throw usage_error("--embedding.matryoshka {}: the encoder's vectors have {} dimensions",
                          dimensions, width);
  });
  Encoder& learner = model->encoder;
  learner.train_top_layers(training.encoder.layers);
  std::vector<RatedParameters> learnt{
      {"encoder", training.encoder.encoder_rate, trained_parameters(learner)}};
  if (head) learnt.push_back({"head", training.encoder.head_rate, trained_parameters(*head)});
  ParameterArena arena(parameter_groups(learnt, training.trainer.train), c.comm.size());
  const std::int64_t longest = learner.config().max_tokens(),
                     length = std::min(training.encoder.max_length, longest);
  if (length < training.encoder.max_length && c.comm.is_root())
    c.log->warn("--train.max-length {}: this model has {} positions; texts are cut to that",
                training.encoder.max_length, longest);
  EmbeddingConfig embedding = model->model.embedding;
  embedding.max_tokens = length;
  EmbeddingTask task(
      std::move(files), std::move(values), loss, length, tokenizer->special().single,
      [&](const PackedIds& batch, DropoutSeed seed) {
        return learner.embed(pack_tokens(batch, learner.device()), embedding,
                             training_forward(learner, training, seed));
      },
      head ? &*head : nullptr);
  Course course = training.trainer.train.course();
  course.no_duplicates = task.scope() == LossScope::global_batch;
  course.validation_items.resize(static_cast<std::size_t>(task.rows(1)));
  std::iota(course.validation_items.begin(), course.validation_items.end(), task.rows(0));
  Trainer(arena, task, training.trainer.train, train_context(c, training.trainer, out), course)
      .run();
  on_root(c.comm, [&] { save_encoder_folder(out.model, learner, embedding, model->model); });
}

}  // namespace gpuhpc
