#include "gpuhpc/pipelines/embedding/pipeline.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/pipelines/embedding/evaluation.hpp"
#include "gpuhpc/pipelines/embedding/evaluator.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"
#include "gpuhpc/pipelines/embedding/mining.hpp"
#include "gpuhpc/pipelines/embedding/model_card.hpp"
#include "gpuhpc/pipelines/embedding/tokens.hpp"
#include "gpuhpc/pipelines/embedding/training.hpp"

namespace gpuhpc {
namespace {

// That the validation rows have the figure that is to tell the best.
void check_metric(const PairLossOptions& options, const ScannedSets::One& in,
                  const TrainOptions& train) {
  if (options.metric == "loss") return;
  const ScannedRows& rows = in.validation.scan ? in.validation : in.train;
  const Learns learns = embedding_loss(options.loss).learns;  // as training has it
  std::vector<std::string> names =
      learns == Learns::classes ? std::vector<std::string>{"label_accuracy"}
                                : figure_names(measure_of(rows.scan->options.rows->texts.size(),
                                                          learns, rows.values, options.evaluator));
  std::erase_if(names, [](const std::string& name) { return name.ends_with("threshold"); });
  if (std::ranges::find(names, options.metric) == names.end())
    throw usage_error("--embedding.metric {}: the validation of these rows has: loss{}{}",
                      options.metric, names.empty() ? "" : ", ", fmt::join(names, ", "));
  if (!in.validation.scan && train.validation == 0)
    throw configuration_error(
        "--embedding.metric {} is measured on validation rows; give --embedding.validation, or "
        "--train.validation",
        options.metric);
}

// That rows of one set of texts are such.
void check_paraphrases(const PairLossOptions& options, const PairFileOptions& files,
                       const ScannedRows& rows) {
  if (options.evaluator != "paraphrases" || !rows.scan) return;
  const RowOptions& wanted = *rows.scan->options.rows;
  if (!of_one_set(measure_of(wanted.texts.size(), rows.learns, rows.values, options.evaluator)))
    throw usage_error(
        "--embedding.evaluator paraphrases: rows of `{}` have one text, a class or a score that is "
        "not 1 or 0, which say nothing of duplicates; leave the option out",
        wanted.texts.front());
  if (!wanted.prompts.empty() && wanted.prompts[0] != wanted.prompts[1])
    throw usage_error(
        "--{}.prompts: with --embedding.evaluator paraphrases `{}` and `{}` are one set of texts; "
        "give both the same prompt",
        files.given_in, wanted.texts[0], wanted.texts[1]);
}

void check_dataset(const PairDataset& set, const ScannedSets::One& in,
                   const SharedOptions& shared) {
  const std::string& section = set.files.given_in;
  const EmbeddingLoss& loss = embedding_loss(set.loss.loss);
  if (const std::size_t columns = in.train.scan->options.rows->texts.size();
      columns < loss.least || columns > loss.most)
    throw usage_error("--{}.loss {} with {} columns of texts ({}); name {} with --{}.columns",
                      section, loss.name, columns, set.files.columns,
                      loss.least == loss.most ? std::to_string(loss.least)
                                              : fmt::format("{} or more", loss.least),
                      section);
  const ModelFolder model = read_model_folder(shared.model.encoder);
  const double dropout = shared.fine_tune.dropout;
  if (set.loss.loss == "simcse" &&
      (dropout == 0 ||
       (dropout < 0 && model.encoder.hidden_dropout == 0 && model.encoder.attention_dropout == 0)))
    throw usage_error(
        "--{}.loss simcse with --train.dropout {}: a text and itself would be the same vector; "
        "give "
        "a dropout, .1 for instance",
        section, dropout < 0 ? "auto, which config.json makes 0" : "0");
  if (shared.fine_tune.layers == 0 && loss.learns != Learns::classes)
    throw usage_error(
        "--train.layers 0: {} has no head that could learn alone; give 1 or more, or -1",
        loss.name);
  if (in.validation.rows() > 0 && shared.training.train.validation > 0)
    throw usage_error(
        "--{}.validation and --train.validation {} both say what to validate on; give one of them",
        section, shared.training.train.validation);
  if (loss.learns == Learns::classes && !set.loss.matryoshka.empty())
    throw usage_error(
        "--{}.loss {} has one head, for whole vectors; leave --embedding.matryoshka out", section,
        loss.name);
  const std::int64_t width = model.embedding.width(model.encoder.hidden_size);
  for (const std::int64_t dimensions : set.loss.dimensions())
    if (dimensions > width)
      throw usage_error("--embedding.matryoshka {}: the encoder's vectors have {} dimensions",
                        dimensions, width);
  check_metric(set.loss, in, shared.training.train);
}

}  // namespace

Pipeline embedding_pipeline(const SharedOptions& shared, const EmbeddingOptions& o,
                            const PairInputs& in, const std::filesystem::path& run_folder) {
  const LearntSets learnt{pair_datasets(o), o.mixing.kind()};
  for (std::size_t i = 0; i < learnt.sets.size(); ++i)
    check_dataset(learnt.sets[i], in.learnt.sets[i], shared);
  if (o.datasets.empty()) check_paraphrases(o.loss, o.files, in.learnt.sets[0].validation);
  check_paraphrases(o.loss, o.files, in.test);
  const EncoderFiles encoder{{shared.model.encoder}, shared.pooling, shared.prompt};
  Pipeline pipeline(run_folder);
  const PairTokenFiles tokens =
      pipeline.add("tokens", PairTokensStage{in.learnt, in.test, encoder.folder, shared.shards});
  const TrainedFiles trained = pipeline.add(
      "training", EmbeddingTrainingStage{tokens, encoder, learnt, shared.fine_tuning()});
  const EvaluationFiles evaluation = pipeline.add(
      "evaluation", EmbeddingEvaluationStage{tokens, encoder, trained, o.loss, shared.infer});
  pipeline.add("card", ModelCardStage{DataNames(learnt.sets, o.files, tokens), tokens, encoder,
                                      trained, evaluation, learnt, shared.fine_tuning()});
  return pipeline;
}

Pipeline mining_pipeline(const SharedOptions& shared, const EmbeddingOptions& o,
                         const PairInputs& in, const std::filesystem::path& run_folder) {
  const std::vector<std::string> names = o.files.column_names();
  if (names.size() != 2)
    throw usage_error("mine needs two columns of texts, anchor and positive, not {} ({})",
                      names.size(), o.files.columns);
  const EncoderFiles encoder{{shared.model.encoder}, shared.pooling, shared.prompt};
  Pipeline pipeline(run_folder);
  const PairTokenFiles tokens =
      pipeline.add("tokens", PairTokensStage{in.learnt, {}, encoder.folder, shared.shards});
  const MiningVectorFiles vectors =
      pipeline.add("vectors", MiningVectorsStage{tokens, encoder, shared.infer});
  pipeline.add("mining", MiningStage{tokens,
                                     vectors,
                                     {names[0], names[1], o.files.prompts_of(names)},
                                     o.mining,
                                     {o.mining.cross_encoder},
                                     shared.infer});
  return pipeline;
}

}  // namespace gpuhpc
