#include "gpuhpc/pipelines/label/inference.hpp"

#include <optional>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"

namespace gpuhpc {

void InferenceStage::check() const {
  decode.check();
  submission_header(submission);
}

void InferenceStage::run(const StageContext& c, const PredictionFiles& out) const {
  const std::filesystem::path& model = corrected ? corrected->model : trained.model;
  ClassifierSettings settings = open_model(model, c.comm, c.log);
  const Labelling labelling{settings.decoding(decode), infer};
  // Others give memberships, or take no labels.
  if (settings.kind == "paths" && !corrected && decode.expected_leaves == 0 &&
      decode.mode == "expected-f1")
    c.log->info(
        "{} leaves expected of a document: unlabelled texts do not tell; give "
        "--decode.expected-leaves 1 for texts of one path, 3 for texts of several, or 50 labelled "
        "documents (--input.labels), which set it",
        settings.expected_leaves);
  const auto classifier = load_classifier(model, settings, infer, c.device, c.comm, c.log);
  const ClassWords words(classifier->taxonomy());
  std::optional<AtomicFile> predictions, table;
  on_root(c.comm, [&] {
    predictions.emplace(out.predictions);
    table.emplace(out.submission);
    table->write(submission_header(submission) + "\n");
  });
  on_root(c.comm, [&] { create_folder(out.tokens); });
  if (!corpus.is_test)
    prepare_shards(corpus.scan, classifier->tokenizer(), out.tokens, shards, Texts::keep, c.comm,
                   c.device.threads, [&](std::int64_t) { c.leave_if_asked(); });
  const TokenDataset documents(corpus.is_test ? encoding.tokens : out.tokens);
  documents.check_tokenizer(classifier->tokenizer());
  Progress progress(c.log, "labelling", documents.size(), "documents", c.comm.is_root());
  predict_corpus(
      *classifier, chunks_of(documents, c.comm), settings.decoding_of_scores(decode), c.comm,
      c.device.threads,
      [&](const Prediction& p) {
        predictions->write(prediction_line(p.id, p.labels, p.scores, words) + "\n");
        table->write(submission_line(p.id, p.labels) + "\n");
      },
      [&](std::int64_t more) {
        progress.advance(more);
        c.leave_together_if_asked();
      });
  on_root(c.comm, [&] {
    predictions->commit();
    table->commit();
    settings.labelling = labelling;
    publish_model(model, out.model, settings);
  });
}

}  // namespace gpuhpc
