#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/prompts.hpp"
#include "gpuhpc/pipelines/label/model_encoders.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"

namespace gpuhpc {
namespace {

// A line as `run` writes it, with a mark for documents that a person should look at.
std::string line_of(const Prediction& p, const ClassWords& words, bool review) {
  std::string line = prediction_line(p.id, p.labels, p.scores, words);
  line.pop_back();
  return line + fmt::format(", \"review\": {}}}", review);
}

}  // namespace

void predict_command(CommandContext& c) {
  const Options& o = c.options;
  on_root(c.comm, [&] { check_output_file(o); });
  run_collectively(c.comm, [&] {
    if (o.shared.model.dir.empty())
      throw usage_error("predict needs --model.dir FOLDER, the model/ of a finished run");
  });
  run_collectively(c.comm, [&] {
    const Prompts own = read_prompts(o.shared.model.dir);
    if (const std::string& given = o.shared.prompt.given; own.text(given) != own.text())
      throw usage_error(
          "--model.prompt {}: the model was made with texts behind \"{}\"; leave the option out, "
          "or "
          "run `gpuhpc run` with it",
          given, own.text());
  });
  const ClassifierSettings settings = open_model(o.shared.model.dir, c.comm, c.log);
  const Labelling labelling = choose_labelling(settings, c.set, c.comm, c.log);
  const auto classifier = load_classifier(o.shared.model.dir, settings, c.device.threads, c.comm);
  const ModelEncoders encoders(o.shared.model.dir, settings, labelling.infer, c.device, c.comm,
                               c.log);
  encoders.check_width(classifier->width());
  const ClassWords words(classifier->taxonomy());
  std::optional<JsonlWriter> writer;
  std::optional<RemovedOnSignal> signals;
  on_root(c.comm, [&] {
    writer.emplace(o.output.file);
    signals.emplace(writer->temporary());
  });
  std::int64_t marked = 0, sure = 0, told = 0;
  double doubt = 0;
  Progress progress(c.log, "labelling", 0, "documents", c.comm.is_root());
  predict_corpus(
      *classifier,
      chunks_of(o.shared.input.file, o.shared.corpus, encoders.tokenizer(), c.comm,
                c.device.threads, c.log),
      [&](const DocumentChunk& chunk) { return encoders.encode(chunk, c.comm); },
      settings.decoding_of_scores(labelling.decode), c.comm, c.device.threads,
      [&](const Prediction& p) {
        const auto best = static_cast<double>(p.scores.front().score);
        const bool review = best < o.review.below;
        writer->write_line(line_of(p, words, review));
        review ? ++marked : ++sure;
        if (p.told) ++told;
        if (!review) doubt += 1 - best;
      },
      [&](std::int64_t n) { progress.advance(n); });
  on_root(c.comm, [&] { writer->commit(); });
  if (told > 0)
    c.log->warn(
        "{} documents have labels that a person gave to their texts, and are labelled so: leave "
        "them out where you measure these predictions",
        told);
  if (marked + sure > 0)
    c.log->info("{} documents are marked for review.{}", marked,
                sure > 0 ? fmt::format(" Of the best classes of the other {}, their scores predict "
                                       "that {:.1f}% are wrong.",
                                       sure, 100 * doubt / static_cast<double>(sure))
                         : "");
}

}  // namespace gpuhpc
