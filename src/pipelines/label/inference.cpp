#include "gpuhpc/pipelines/label/inference.hpp"

#include <optional>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"

namespace gpuhpc {

void run_inference(const StageContext& c, const ClassifyOptions& o, const InputLayout& layout,
                   const std::filesystem::path& model) {
  const auto classifier = load_classifier(model, o.infer, c.device, c.comm, c.log);
  const ClassWords words(classifier->taxonomy());
  std::optional<AtomicFile> predictions, submission;
  on_root(c.comm, [&] {
    predictions.emplace(c.folder / "predictions.jsonl");
    submission.emplace(c.folder / "submission.csv");
    submission->write(submission_header(o.submission) + "\n");
  });
  Progress progress(c.log, "labelling", 0, "documents", c.comm.is_root());
  predict_corpus(
      *classifier, layout.test_corpus, o.input.corpus, o.decode, c.comm, c.device.threads,
      [&](const Prediction& p) {
        predictions->write(prediction_line(p.id, p.labels, p.scores, words) + "\n");
        submission->write(submission_line(p.id, p.labels) + "\n");
      },
      [&](std::int64_t documents) {
        progress.advance(documents);
        c.leave_together_if_asked();
      });
  on_root(c.comm, [&] {
    predictions->commit();
    submission->commit();
  });
}

}  // namespace gpuhpc
