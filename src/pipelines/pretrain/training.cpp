#include "gpuhpc/pipelines/pretrain/training.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// A model with them.
struct Session {
  Session(const Pretraining& pretraining, const fs::path& folder, const StageContext& c)
      : model(MaskedLanguageModel::load(folder, seed_of(pretraining.training) + 1,
                                        torch_device(c.device))),
        texts(pretraining, model.base.model.weights_folder,
              model.base.encoder.config().max_tokens(),
              [&](const PackedIds& batch, const MaskedPlaces& masked, DropoutSeed dropout) {
                return model.loss(
                    pack_tokens(batch, model.base.encoder.device()), masked.places, masked.targets,
                    training_forward(model.base.encoder, pretraining.training, dropout));
              }) {
    check_vocabulary(model.base.model, texts.tokenizer->vocabulary_size());
  }
  Session(const Session&) = delete;

  MaskedLanguageModel model;
  LearntTexts texts;
};

// Ten held-out pieces: the text with its masks, what stood at the first of them, and the five words
// that the model finds most probable there.
std::string sample_lines(Session& session) {
  const at::NoGradGuard no_grad;
  std::string lines = "text\twas\twords\n";
  const std::size_t shown = std::min<std::size_t>(10, session.texts.held_out().size());
  for (std::size_t i = 0; i < shown; ++i) {
    const std::int64_t piece =
        session.texts.held_out()[i * session.texts.held_out().size() / shown];
    PackedIds batch = session.texts.task.packed({&piece, 1});
    const MaskedPlaces masked = session.texts.task.mask(batch, -1);
    const std::int64_t place = masked.places.front();
    batch.token_ids[static_cast<std::size_t>(place)] = session.texts.tokenizer->special().mask;
    const at::Tensor best = std::get<1>(
        session.model.logits(pack_tokens(batch, session.model.base.encoder.device()), {&place, 1})
            .topk(5));
    std::string words;
    for (std::int64_t k = 0; k < 5; ++k) {
      const auto id = static_cast<std::int32_t>(best[0][k].item<std::int64_t>());
      words += (k > 0 ? ", " : "") + session.texts.tokenizer->decode({&id, 1}, false);
    }
    const auto was = static_cast<std::int32_t>(masked.targets.front());
    lines += fmt::format("{}\t{}\t{}\n",
                         table_field(session.texts.tokenizer->decode(batch.token_ids, false)),
                         table_field(session.texts.tokenizer->decode({&was, 1}, false)),
                         table_field(std::move(words)));
  }
  return lines;
}

}  // namespace

void PretrainTrainingStage::run(const StageContext& c, const TrainedFiles& out) const {
  const FineTuning& tuning = pretraining.training;
  std::optional<Session> session;
  run_collectively(c.comm, [&] { session.emplace(pretraining, pretraining.start.folder(), c); });
  MaskedLanguageModel& model = session->model;
  Encoder& encoder = model.base.encoder;
  LearntTexts& texts = session->texts;
  if (c.comm.is_root()) {
    if (model.new_head)
      c.log->info("{} has no head for masked tokens; a new one is drawn",
                  pretraining.start.folder().string());
    if (texts.length < tuning.encoder.max_length)
      c.log->warn("--train.max-length {}: this model has {} positions; texts are cut into those",
                  tuning.encoder.max_length, texts.length);
    c.log->info("{} texts in {} pieces of at most {} tokens, {} pieces held out",
                texts.task.documents(), texts.task.size(), texts.length, texts.held_out().size());
  }
  encoder.train_top_layers(tuning.encoder.layers);
  ParameterArena arena(
      parameter_groups({{"encoder", tuning.encoder.encoder_rate, trained_parameters(encoder)},
                        {"head", tuning.encoder.head_rate, trained_parameters(model.head)}},
                       tuning.trainer.train),
      c.comm.size());
  Trainer trainer(arena, texts.task, tuning.trainer.train, train_context(c, tuning.trainer, out),
                  texts.course);
  const fs::path folder = train_or_export(trainer, c, out);
  on_root(c.comm, [&] {
    model.save(folder);
    seal_model(folder);
  });
}

void PerplexityStage::run(const StageContext& c, const PerplexityFiles& out) const {
  Json metrics = Json::object();
  for (const bool after : {false, true}) {
    const char* const name = after ? "trained" : "start";
    const fs::path& folder = after ? trained.model : pretraining.start.folder();
    std::optional<Session> session;
    run_collectively(c.comm, [&] { session.emplace(pretraining, folder, c); });
    metrics["held_out_pieces"] = session->texts.held_out().size();
    if (after) on_root(c.comm, [&] { write_text_file(out.samples, sample_lines(*session)); });
    if (session->texts.held_out().empty()) continue;
    const double loss = mean_loss(session->texts.task, session->texts.held_out(), c.comm);
    metrics[name] = {{"loss", loss}, {"perplexity", std::exp(loss)}};
    if (c.comm.is_root())
      c.log->info("{}: perplexity {:.2f} of a masked token in {} held-out pieces", name,
                  std::exp(loss), session->texts.held_out().size());
  }
  on_root(c.comm, [&] { write_json(out.metrics, metrics); });
}

}  // namespace gpuhpc
