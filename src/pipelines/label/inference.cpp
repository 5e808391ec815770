#include "gpuhpc/pipelines/label/inference.hpp"

#include <optional>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/model_encoders.hpp"
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
  const auto classifier = load_classifier(model, settings, c.device.threads, c.comm);
  const ClassWords words(classifier->taxonomy());
  std::optional<AtomicFile> predictions, table;
  on_root(c.comm, [&] {
    predictions.emplace(out.predictions);
    table.emplace(out.submission);
    table->write(submission_header(submission) + "\n");
  });
  const TokenDataset documents(corpus.is_test ? encoding.tokens : test.tokens);
  std::optional<KeptVectors> vectors;
  run_collectively(c.comm, [&] {
    vectors.emplace(test.vectors, settings.transductive ? 0 : settings.encoders(model).size(),
                    documents.size(), classifier->width());
  });
  Progress progress(c.log, "labelling", documents.size(), "documents", c.comm.is_root());
  predict_corpus(
      *classifier, chunks_of(documents, c.comm),
      [&](const DocumentChunk& chunk) { return vectors->of(chunk); },
      settings.decoding_of_scores(decode), c.comm, c.device.threads,
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
