#include "gpuhpc/app/run_report.hpp"

#include <ctime>
#include <unordered_map>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/report/fill.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", std::localtime(&now));
  return text;
}

// Losses and learning rate of metrics.jsonl, one line a step and one a validation.
std::vector<ReportCurve> read_curves(const fs::path& path) {
  ReportCurve loss{"training loss", "step", {{"loss", {}, {}}}}, rate{"learning rate (share of the peak)", "step", {{"rate", {}, {}}}};
  ReportSeries validation{"validation", {}, {}};
  LineReader lines(path);
  for (std::string line; lines.next(line);) {
    const Json step = parse_json(line, path.string());
    if (step.contains("validation_loss") && step.at("validation_loss").is_number()) {
      validation.x.push_back(step.at("step"));
      validation.y.push_back(step.at("validation_loss"));
    }
    if (!step.contains("loss") || step.at("loss").is_null()) continue;  // null: an update that was skipped
    loss.series[0].x.push_back(step.at("step"));
    loss.series[0].y.push_back(step.at("loss"));
    rate.series[0].x.push_back(step.at("step"));
    rate.series[0].y.push_back(step.at("rate_factor"));
  }
  if (loss.series[0].x.empty()) return {};
  if (!validation.x.empty()) loss.series.push_back(std::move(validation));
  return {loss, rate};
}

void add_examples(ReportModel& model, const Taxonomy& taxonomy, const Predictions& predictions, const std::vector<ExampleLabels>& examples,
                  const fs::path& corpus, const CorpusOptions& options) {
  std::unordered_map<std::string, std::size_t> rows, wanted;
  for (std::size_t i = 0; i < predictions.ids.size(); ++i) rows[predictions.ids[i]] = i;
  std::vector<std::string> texts(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) wanted[examples[i].id] = i;
  CorpusReader reader(corpus, options);
  for (Document document; reader.next(document);)
    if (const auto found = wanted.find(document.id); found != wanted.end()) texts[found->second] = document.text;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto row = rows.find(examples[i].id);
    const bool scored = row != rows.end() && !predictions.scores.empty();
    fill_example(model, taxonomy, examples[i], texts[i], scored ? std::span<const ClassScore>(predictions.scores[row->second]) : std::span<const ClassScore>{});
  }
}

std::vector<ExampleLabels> examples_without_gold(const Predictions& predictions, const EvalOptions& options) {
  std::vector<ExampleLabels> examples;
  for (const std::int64_t i : draw_examples(std::ssize(predictions.ids), options.examples, static_cast<std::uint64_t>(options.seed)))
    examples.push_back({predictions.ids[static_cast<std::size_t>(i)], predictions.labels[static_cast<std::size_t>(i)], {}});
  return examples;
}

}  // namespace

ReportModel make_run_report(const CommandContext& c, const fs::path& run, const InputLayout& layout, const Taxonomy& taxonomy,
                            const std::vector<StageTime>& times, bool evaluated) {
  const Options& o = c.options;
  ReportModel model;
  const Predictions predictions = read_predictions(run / "predictions.jsonl", taxonomy);
  model.documents = std::ssize(predictions.ids);
  model.title = fmt::format("{}: {} documents, {} classes", layout.folder.filename().string(), format_count(model.documents), format_count(taxonomy.size()));
  double seconds = 0;
  for (const StageTime& time : times) {
    model.stages.push_back({time.name, time.seconds, time.skipped});
    seconds += time.seconds;
  }
  model.facts = {{"command", c.command_line}, {"date", today()}, {"version", GPUHPC_VERSION}, {"preset", o.preset},
                 {"ranks", fmt::format("{} on {}", c.comm.size(), c.comm.host())}, {"device", describe(c.device)}, {"input", o.teleclass.input.dir},
                 {"encoder", o.teleclass.model.encoder}, {"stage time", format_duration(seconds)}};
  model.config = c.set.ini();
  fill_classes(model, taxonomy, predictions.labels);
  model.curves = read_curves(run / "metrics.jsonl");
  if (layout.test_serves_as_train) model.warnings.push_back("No training corpus was given: the test texts served, unlabelled.");
  std::vector<ExampleLabels> examples;
  if (evaluated) {
    EvaluationDetails details = read_evaluation(run / "evaluation.json");
    fill_evaluation(model, details);
    examples = std::move(details.examples);
  } else {
    model.histograms = score_histograms(predictions.scores, predictions.labels, {});
    examples = examples_without_gold(predictions, o.eval);
  }
  add_examples(model, taxonomy, predictions, examples, layout.test_corpus, o.teleclass.input.corpus);
  return model;
}

}  // namespace gpuhpc
