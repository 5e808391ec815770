#include "gpuhpc/pipelines/label/inference.hpp"

#include <optional>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

void run_inference(const StageContext& c, const ClassifyOptions& o, const InputLayout& layout,
                   const fs::path& model) {
  const auto classifier = load_classifier(model, o.infer, c.device, c.comm, c.log);
  const ClassWords words(classifier->taxonomy());
  std::optional<AtomicFile> predictions, submission;
  on_root(c.comm, [&] {
    predictions.emplace(c.folder / "predictions.jsonl");
    submission.emplace(c.folder / "submission.csv");
    submission->write(submission_header(o.submission) + "\n");
  });
  // Where the test texts served as the training corpus, they lie there.
  const fs::path tokens =
      layout.test_serves_as_train ? c.folder_of("encoding") / "tokens" : c.folder / "tokens";
  if (!layout.test_serves_as_train)
    prepare_shards(*layout.test_scan, classifier->tokenizer(), tokens, o.shards, Texts::keep,
                   c.comm, c.device.threads, [&](std::int64_t) { c.leave_if_asked(); });
  const TokenDataset documents(tokens);
  documents.check_tokenizer(classifier->tokenizer());
  Progress progress(c.log, "labelling", documents.size(), "documents", c.comm.is_root());
  predict_corpus(
      *classifier, chunks_of(documents, c.comm), o.decode, c.comm, c.device.threads,
      [&](const Prediction& p) {
        predictions->write(prediction_line(p.id, p.labels, p.scores, words) + "\n");
        submission->write(submission_line(p.id, p.labels) + "\n");
      },
      [&](std::int64_t more) {
        progress.advance(more);
        c.leave_together_if_asked();
      });
  on_root(c.comm, [&] {
    predictions->commit();
    submission->commit();
  });
}

}  // namespace gpuhpc
