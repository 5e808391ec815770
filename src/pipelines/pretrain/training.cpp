#include "gpuhpc/pipelines/pretrain/training.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/pipelines/model_card.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"
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

const char* const sample_columns[] = {"text", "was", "words"};

// Ten held-out pieces: the text with its masks, what stood at the first of them, and the five words
// that the model finds most probable there.
Json sample_rows(Session& session) {
  LearntTexts& texts = session.texts;
  const Tokenizer& tokenizer = *texts.tokenizer;
  Json rows = Json::array();
  const std::size_t shown = std::min<std::size_t>(10, texts.held_out().size());
  for (std::size_t i = 0; i < shown; ++i) {
    const std::int64_t piece = texts.held_out()[i * texts.held_out().size() / shown];
    PackedIds batch = texts.task.packed({&piece, 1});
    const MaskedPlaces masked = texts.task.mask(batch, -1);
    const std::int64_t place = masked.places.front();
    batch.token_ids[static_cast<std::size_t>(place)] = tokenizer.special().mask;
    const at::Tensor best = std::get<1>(
        session.model.logits(pack_tokens(batch, session.model.base.encoder.device()), {&place, 1})
            .topk(5));
    std::string words;
    for (std::int64_t k = 0; k < 5; ++k) {
      const auto id = static_cast<std::int32_t>(best[0][k].item<std::int64_t>());
      words += (k > 0 ? ", " : "") + tokenizer.decode({&id, 1}, false);
    }
    const auto was = static_cast<std::int32_t>(masked.targets.front());
    rows.push_back({tokenizer.decode(batch.token_ids, false), tokenizer.decode({&was, 1}, false),
                    std::move(words)});
  }
  return rows;
}

// Those of each validation, behind its step; and the model's as it was left.
Json sample_table(const fs::path& metrics, Json last) {
  Json rows = Json::array();
  const auto add = [&](const std::string& step, Json& samples) {
    for (Json& row : samples) {
      row.insert(row.begin(), step);
      rows.push_back(std::move(row));
    }
  };
  LineReader lines(metrics);
  for (std::string text; lines.next(text);) {
    Json line = parse_json(text, lines.where());
    if (line.contains("samples")) add(line.at("step").dump(), line["samples"]);
  }
  add("end", last);
  Json columns = sample_columns;
  columns.insert(columns.begin(), "after step");
  return Json::array({{{"title", "Masked words"},
                       {"about",
                        "Ten held-out texts with their masks, what stood at the first mask, and "
                        "the five words that the model found most probable there."},
                       {"columns", columns},
                       {"rows", rows}}});
}

// The model's README.md.
ModelCard card_of(const Pretraining& pretraining, const DataFacts& data, const Session& session,
                  const Json& metrics) {
  ModelCard card;
  const EncoderConfig& config = session.model.base.encoder.config();
  card.front = "library_name: transformers\npipeline_tag: fill-mask\ntags:\n- fill-mask\n";
  card.title = "Masked-language model";
  card.about = fmt::format(
      "Finds words that are masked in a text: {} layers of {}, a vocabulary of {}.\nTrained by "
      "gpuhpc; texts were cut into pieces of {} tokens.",
      config.layers, config.hidden_size, config.vocabulary_size, session.texts.length);
  card.use =
      "```python\nfrom transformers import pipeline\n\nfill = pipeline(\"fill-mask\", "
      "model=\"FOLDER\")\n```\n\n```\ngpuhpc run --model.encoder FOLDER\ngpuhpc "
      "train-embedding --model.encoder FOLDER\n```\n";
  card.data = {{"corpus", "texts"}};
  card.data.insert(card.data.end(), data.rows.begin(), data.rows.end());
  if (metrics.contains("trained")) {
    card.scores = {{"model", "loss of a masked token", "perplexity"}};
    for (const char* which : {"start", "trained"})
      card.scores.push_back(
          {which, fmt::format("{:.4f}", metrics.at(which).at("loss").get<double>()),
           fmt::format("{:.2f}", metrics.at(which).at("perplexity").get<double>())});
  }
  for (const auto& lines :
       {config::settings_of(pretraining.masking), config::settings_of(pretraining.training.encoder),
        config::settings_of(pretraining.training.trainer.train)})
    card.settings.insert(card.settings.end(), lines.begin(), lines.end());
  return card;
}

}  // namespace

std::vector<std::string> DataFacts::settings() const {
  std::vector<std::string> lines;
  for (const auto& row : rows) lines.push_back(fmt::format("{}", fmt::join(row, " = ")));
  return lines;
}

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
  TrainContext context = train_context(c, tuning.trainer, out);
  run_collectively(c.comm, [&] {
    const PlannedModel planned = planned_model(pretraining.start.folder().string());
    PlannedWork work =
        planned_training(PlanJob::pretrain, planned, tuning, c.device.cuda, c.comm.size());
    work.masked = pretraining.masking.share;
    context.foreseen = foreseen_batch(planned, work, tuning, c.device, texts.length);
    if (c.comm.is_root()) log_memory(c.log, planned, work, tuning, texts.length);
  });
  encoder.train_top_layers(tuning.encoder.layers);
  ParameterArena arena(
      parameter_groups({{"encoder", tuning.encoder.encoder_rate, trained_parameters(encoder)},
                        {"head", tuning.encoder.head_rate, trained_parameters(model.head)}},
                       tuning.trainer.train),
      c.comm.size());
  texts.task.show([&] { return sample_rows(*session); });
  Trainer trainer(arena, texts.task, tuning.trainer.train, std::move(context), texts.course);
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
    if (!session->texts.held_out().empty()) {
      const double loss = mean_loss(session->texts.task, session->texts.held_out(),
                                    pretraining.training.trainer.train, c.comm);
      metrics[name] = {{"loss", loss}, {"perplexity", std::exp(loss)}};
      if (c.comm.is_root())
        c.log->info("{}: perplexity {:.2f} of a masked token in {} held-out pieces", name,
                    std::exp(loss), session->texts.held_out().size());
    }
    if (!after) continue;
    on_root(c.comm, [&] {
      const at::NoGradGuard no_grad;
      write_json(out.metrics, metrics);
      write_json(out.samples, sample_table(trained.metrics, sample_rows(*session)));
      save_with_card(trained.model, out.model, card_of(pretraining, data, *session, metrics));
    });
  }
}

}  // namespace gpuhpc
