#include "gpuhpc/pipelines/pretrain/training.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/pretrain/task.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// A model with the texts it learns or is measured on.
struct Session {
  Session(const Pretraining& pretraining, const fs::path& folder, const StageContext& c)
      : seed(static_cast<std::uint64_t>(pretraining.training.trainer.train.seed)),
        model(MaskedLanguageModel::load(folder, seed + 1, torch_device(c.device))),
        tokenizer(load_tokenizer(model.base.model.weights_folder)),
        files(open_datasets(pretraining.texts.tokens)),
        length(std::min(pretraining.training.encoder.max_length,
                        model.base.encoder.config().max_tokens())),
        task(files, length, checked(*tokenizer, model.base.model), tokenizer->vocabulary_size(),
             pretraining.masking.share,
             pretraining.masking.whole_words ? continuing_ids(*tokenizer) : std::vector<bool>{},
             seed, [&](const PackedIds& batch, const MaskedPlaces& masked, DropoutSeed dropout) {
               return model.loss(
                   pack_tokens(batch, model.base.encoder.device()), masked.places, masked.targets,
                   training_forward(model.base.encoder, pretraining.training, dropout));
             }) {
    for (const TokenDataset& file : files) file.check_tokenizer(*tokenizer);
    const HeldOut documents =
        hold_out(task.documents(), pretraining.training.trainer.train.validation, seed);
    for (const std::int64_t document : documents.validation)
      for (std::int64_t piece = task.pieces(document).first; piece < task.pieces(document).last;
           ++piece)
        held_out.push_back(piece);
  }
  Session(const Session&) = delete;

  static const SpecialTokens& checked(const Tokenizer& tokenizer, const ModelFolder& model) {
    check_vocabulary(model, tokenizer.vocabulary_size());
    if (tokenizer.special().mask < 0)
      throw input_error("{}: its tokenizer has no mask token; take a model of the BERT family",
                        model.folder.string());
    return tokenizer.special();
  }

  std::uint64_t seed;
  MaskedLanguageModel model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<TokenDataset> files;
  std::int64_t length;
  MaskedLanguageTask task;
  std::vector<std::int64_t> held_out;  // pieces, ascending
};

// Ten held-out pieces: the text with its masks, what stood at the first of them, and the five words
// that the model finds most probable there.
std::string sample_lines(Session& session) {
  const at::NoGradGuard no_grad;
  std::string lines = "text\twas\twords\n";
  const std::size_t shown = std::min<std::size_t>(10, session.held_out.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const std::int64_t piece = session.held_out[i * session.held_out.size() / shown];
    PackedIds batch = session.task.packed({&piece, 1});
    const MaskedPlaces masked = session.task.mask(batch, -1);
    const std::int64_t place = masked.places.front();
    batch.token_ids[static_cast<std::size_t>(place)] = session.tokenizer->special().mask;
    const at::Tensor best = std::get<1>(
        session.model.logits(pack_tokens(batch, session.model.base.encoder.device()), {&place, 1})
            .topk(5));
    std::string words;
    for (std::int64_t k = 0; k < 5; ++k) {
      const auto id = static_cast<std::int32_t>(best[0][k].item<std::int64_t>());
      words += (k > 0 ? ", " : "") + session.tokenizer->decode({&id, 1}, false);
    }
    const auto was = static_cast<std::int32_t>(masked.targets.front());
    lines += fmt::format(
        "{}\t{}\t{}\n", table_field(session.tokenizer->decode(batch.token_ids, false)),
        table_field(session.tokenizer->decode({&was, 1}, false)), table_field(std::move(words)));
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
  if (c.comm.is_root()) {
    if (model.new_head)
      c.log->info("{} has no head for masked tokens; a new one is drawn",
                  pretraining.start.folder().string());
    if (session->length < tuning.encoder.max_length)
      c.log->warn("--train.max-length {}: this model has {} positions; texts are cut into those",
                  tuning.encoder.max_length, session->length);
    c.log->info("{} texts in {} pieces of at most {} tokens, {} pieces held out",
                session->task.documents(), session->task.size(), session->length,
                session->held_out.size());
  }
  encoder.train_top_layers(tuning.encoder.layers);
  ParameterArena arena(
      parameter_groups({{"encoder", tuning.encoder.encoder_rate, trained_parameters(encoder)},
                        {"head", tuning.encoder.head_rate, trained_parameters(model.head)}},
                       tuning.trainer.train),
      c.comm.size());
  Course course = tuning.trainer.train.course();
  course.validation = 0;  // whole texts instead of a share of the pieces
  course.validation_items = session->held_out;
  for (const MixedCorpora::Corpus& corpus : pretraining.mixed.corpora)
    course.corpora.push_back({session->task.pieces_of(corpus.files), corpus.weight, corpus.name});
  Trainer(arena, session->task, tuning.trainer.train, train_context(c, tuning.trainer, out), course)
      .run();
  on_root(c.comm, [&] {
    model.save(out.model);
    seal_model(out.model);
  });
}

void PerplexityStage::run(const StageContext& c, const PerplexityFiles& out) const {
  Json metrics = Json::object();
  for (const bool after : {false, true}) {
    const char* const name = after ? "trained" : "start";
    const fs::path& folder = after ? trained.model : pretraining.start.folder();
    std::optional<Session> session;
    run_collectively(c.comm, [&] { session.emplace(pretraining, folder, c); });
    metrics["held_out_pieces"] = session->held_out.size();
    if (after) on_root(c.comm, [&] { write_text_file(out.samples, sample_lines(*session)); });
    if (session->held_out.empty()) continue;
    const double loss = mean_loss(session->task, session->held_out, c.comm);
    metrics[name] = {{"loss", loss}, {"perplexity", std::exp(loss)}};
    if (c.comm.is_root())
      c.log->info("{}: perplexity {:.2f} of a masked token in {} held-out pieces", name,
                  std::exp(loss), session->held_out.size());
  }
  on_root(c.comm, [&] { write_json(out.metrics, metrics); });
}

}  // namespace gpuhpc
