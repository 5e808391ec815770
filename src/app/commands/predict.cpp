#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"

namespace gpuhpc {
namespace {

// A line as `run` writes it, with a mark for documents that a person should look at.
std::string line_of(const Prediction& p, const ClassWords& words, double review_below) {
  std::string line = prediction_line(p.id, p.labels, p.scores, words);
  line.pop_back();
  return line +
         (p.scores.front().score < review_below ? ", \"review\": true}" : ", \"review\": false}");
}

}  // namespace

void predict_command(CommandContext& c) {
  const Options& o = c.options;
  run_collectively(c.comm, [&] {
    if (o.shared.model.dir.empty())
      throw usage_error("predict needs --model.dir FOLDER, the model/ of a finished run");
  });
  const ClassifierSettings settings = open_model(o.shared.model.dir, c.comm, c.log);
  const Labelling labelling = choose_labelling(settings, c.set, c.comm, c.log);
  const auto classifier =
      load_classifier(o.shared.model.dir, settings, labelling.infer, c.device, c.comm, c.log);
  const ClassWords words(classifier->taxonomy());
  CorpusOptions corpus = o.shared.corpus;
  corpus.ids_optional = true;
  corpus.check_duplicates = false;
  std::optional<JsonlWriter> writer;
  std::optional<RemovedOnSignal> signals;
  on_root(c.comm, [&] {
    writer.emplace(o.output.file);
    signals.emplace(writer->temporary());
  });
  Progress progress(c.log, "labelling", 0, "documents", c.comm.is_root());
  predict_corpus(
      *classifier,
      chunks_of(o.shared.input.file, corpus, classifier->tokenizer(), c.comm, c.device.threads),
      labelling.decode, c.comm, c.device.threads,
      [&](const Prediction& p) { writer->write_line(line_of(p, words, o.review.below)); },
      [&](std::int64_t n) { progress.advance(n); });
  on_root(c.comm, [&] { writer->commit(); });
}

}  // namespace gpuhpc
