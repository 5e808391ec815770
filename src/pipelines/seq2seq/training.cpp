#include "gpuhpc/pipelines/seq2seq/training.hpp"

#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

void NewT5Stage::run(const StageContext& c, const NewModelFiles& out) const {
  on_root(c.comm, [&] {
    const auto words = load_tokenizer(tokenizer.path);
    const SpecialTokens& special = words->special();
    if (special.pad < 0 || special.eos < 0)
      throw input_error(
          "{}: its tokenizer has no {} token, which a T5 needs; name the folder of a T5's "
          "tokenizer "
          "with --model.encoder",
          tokenizer.path.string(), special.eos < 0 ? "</s>" : "<pad>");
    nlohmann::ordered_json config = new_t5_config(options.model, words->vocabulary_size());
    config["pad_token_id"] = config["decoder_start_token_id"] = special.pad;
    config["eos_token_id"] = special.eos;
    create_folder(out.model);
    write_json(out.model / "config.json", config);
    T5 model(read_t5_config(out.model / "config.json"));
    model.initialise(static_cast<std::uint64_t>(seed.value));
    save_t5(out.model, model, config, tokenizer.path);
    c.log->info("a new {} T5: vocabulary {}, {} parameters", options.model,
                words->vocabulary_size(), t5_parameter_count(model.config()));
  });
}

void Seq2SeqTokensStage::run(const StageContext& c, const Seq2SeqTokenFiles& out) const {
  std::unique_ptr<Tokenizer> words;
  run_collectively(c.comm, [&] { words = load_tokenizer(tokenizer.path); });
  Progress progress(c.log, "tokenizing", train.rows() + validation.rows(), "rows",
                    c.comm.is_root());
  for (const auto& [pairs, folder] :
       {std::pair(&train, &out.train), std::pair(&validation, &out.validation)}) {
    on_root(c.comm, [&, place = folder] { create_folder(*place); });
    if (!pairs->scan) continue;
    const std::filesystem::path columns[] = {*folder / "0", *folder / "1"};
    prepare_shards(*pairs->scan, *words, columns, shards, Texts::keep, c.comm, c.device.threads,
                   [&](std::int64_t done) {
                     progress.advance(done);
                     c.leave_if_asked();
                   });
  }
  progress.finish();
}

namespace {

std::vector<std::vector<TokenDataset>> open_files(const Seq2SeqTokenFiles& tokens,
                                                  const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenDataset>> files;
  for (const auto& folder : {tokens.train, tokens.validation})
    for (const TokenDataset& column : files.emplace_back(open_datasets(folder)))
      column.check_tokenizer(tokenizer);
  return files;
}

}  // namespace

Seq2SeqSession::Seq2SeqSession(const Seq2SeqLearning& l, const std::filesystem::path& folder,
                               const StageContext& c)
    : loaded(load_t5(folder, torch_device(c.device))),
      tokenizer(load_tokenizer(folder)),
      task(open_files(l.tokens, *tokenizer), l.options.source_length, l.options.target_length,
           form(),
           [this, &l](const PackedIds& sources, const PackedIds& targets, DropoutSeed seed) {
             const T5& model = loaded.model;
             return model.loss(pack_tokens(sources, model.device()),
                               pack_tokens(targets, model.device()),
                               seed ? l.options.label_smoothing : 0,
                               training_forward(model.device(), model.config().dropout,
                                                model.config().dropout, l.training, seed));
           }) {
  check_t5_vocabulary(loaded, tokenizer->vocabulary_size());
  if (task.rows(1) > 0) {
    held_out.resize(static_cast<std::size_t>(task.rows(1)));
    std::iota(held_out.begin(), held_out.end(), task.rows(0));
  } else {
    const TrainOptions& train = l.training.trainer.train;
    HeldOut parts = hold_out(task.size(), train.validation, static_cast<std::uint64_t>(train.seed));
    require_held_out(train, parts.learnt.size(), parts.validation.size());
    held_out = std::move(parts.validation);
  }
}

const TextTemplate& Seq2SeqSession::form() const {
  const TextTemplate& around = tokenizer->special().single;
  if (around.after.empty() || around.after.back() != loaded.model.config().eos)
    throw input_error(
        "{}: its tokenizer does not end a text with the model's \"eos_token_id\" {}; take "
        "tokenizer "
        "and config.json from one model",
        loaded.folder.string(), loaded.model.config().eos);
  return around;
}

void Seq2SeqTrainingStage::run(const StageContext& c, const TrainedFiles& out) const {
  const FineTuning& tuning = learning.training;
  std::optional<Seq2SeqSession> session;
  run_collectively(c.comm, [&] { session.emplace(learning, learning.start.folder(), c); });
  T5& model = session->loaded.model;
  Seq2SeqTask& task = session->task;
  if (c.comm.is_root())
    c.log->info("{} pairs, {} of them held out; {} parameters", task.size(),
                session->held_out.size(), t5_parameter_count(model.config()));
  TrainContext context = train_context(c, tuning.trainer, out);
  run_collectively(c.comm, [&] {
    const PlannedModel planned = planned_model(learning.start.folder().string());
    PlannedWork work =
        planned_training(PlanJob::seq2seq, planned, tuning, c.device.cuda, c.comm.size());
    work.label_smoothing = learning.options.label_smoothing;
    const std::int64_t length = learning.options.source_length,
                       target_length = learning.options.target_length;
    context.foreseen = foreseen_batch(planned, work, tuning, c.device, length, target_length);
    if (c.comm.is_root()) log_memory(c.log, planned, work, tuning, length, target_length);
  });
  model.learn_everything();
  ParameterArena arena(
      parameter_groups({{"model", tuning.encoder.encoder_rate, trained_parameters(model)}},
                       tuning.trainer.train),
      c.comm.size());
  Course course = tuning.trainer.train.course();
  course.validation = 0;
  course.validation_items = session->held_out;
  Trainer trainer(arena, task, tuning.trainer.train, std::move(context), course);
  const std::filesystem::path folder = train_or_export(trainer, c, out);
  on_root(c.comm, [&] {
    const std::filesystem::path& start = learning.start.folder();
    auto config = nlohmann::ordered_json::parse(read_text_file(start / "config.json"));
    config["task_specific_params"]["summarization"]["prefix"] = prefix.text;
    save_t5(folder, model, config, start);
    seal_model(folder);
  });
}

}  // namespace gpuhpc
