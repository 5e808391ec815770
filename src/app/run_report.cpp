#include "gpuhpc/app/run_report.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <unordered_map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/report/fill.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "gpuhpc/report/training.hpp"
#include "gpuhpc/train/watch.hpp"
#include "run_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", std::localtime(&now));
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// The texts of the examples are all that does not lie in the run folder.
std::vector<std::string> read_texts(const RunFolder& folder,
                                    const std::vector<ExampleLabels>& examples,
                                    std::vector<std::string>& warnings) {
  std::unordered_map<std::string, std::size_t> wanted;
  std::vector<std::string> texts(examples.size());
  if (examples.empty()) return texts;
  for (std::size_t i = 0; i < examples.size(); ++i) wanted[examples[i].id] = i;
  const Options o = folder.options();
  if (!fs::is_directory(o.teleclass.input.dir)) {
    warnings.push_back(fmt::format(
        "The examples are without their texts: the input folder {} is not there any more.",
        o.teleclass.input.dir));
    return texts;
  }
  try {
    CorpusReader reader(resolve_layout(o.teleclass.input.dir).test_corpus,
                        o.teleclass.input.corpus);
    for (Document document; reader.next(document);)
      if (const auto found = wanted.find(document.id); found != wanted.end())
        texts[found->second] = document.text;
  } catch (const Error& error) {
    warnings.push_back(fmt::format("The examples are without their texts: {}.", error.what()));
  }
  return texts;
}

void add_examples(ReportModel& model, const RunFolder& folder, const Taxonomy& taxonomy,
                  const Predictions& predictions, const std::vector<ExampleLabels>& examples) {
  std::unordered_map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < predictions.ids.size(); ++i) rows[predictions.ids[i]] = i;
  const std::vector<std::string> texts = read_texts(folder, examples, model.warnings);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto row = rows.find(examples[i].id);
    const bool scored = row != rows.end() && !predictions.scores.empty();
    fill_example(model, taxonomy, examples[i], texts[i],
                 scored ? std::span<const ClassScore>(predictions.scores[row->second])
                        : std::span<const ClassScore>{});
  }
}

std::vector<ExampleLabels> examples_without_gold(const Predictions& predictions,
                                                 const EvalOptions& options) {
  std::vector<ExampleLabels> examples;
  for (const std::int64_t i : draw_examples(std::ssize(predictions.ids), options.examples,
                                            static_cast<std::uint64_t>(options.seed)))
    examples.push_back({predictions.ids[static_cast<std::size_t>(i)],
                        predictions.labels[static_cast<std::size_t>(i)],
                        {}});
  return examples;
}

// evaluation.json holds class ids: it may be that of another taxonomy.
void check_classes(const EvaluationDetails& details, const Taxonomy& taxonomy,
                   const fs::path& path) {
  const auto fits = [&](const std::vector<std::int32_t>& classes) {
    return std::ranges::all_of(classes, [&](std::int32_t c) {
      return c >= 0 && c < static_cast<std::int32_t>(taxonomy.size());
    });
  };
  bool good = details.evaluation.classes.size() == static_cast<std::size_t>(taxonomy.size());
  for (const SiblingConfusion& group : details.confusion)
    good = good && fits(group.classes) && (group.parent < 0 || fits({group.parent}));
  for (const ExampleLabels& example : details.examples)
    good = good && fits(example.predicted) && fits(example.gold);
  if (!good)
    throw input_error("{}: it does not fit the taxonomy of this run; run `gpuhpc evaluate` again",
                      path.string());
}

void add_predictions(ReportModel& model, const RunFolder& folder) {
  const fs::path path = folder.path() / "predictions.jsonl";
  const auto labels = folder.model_file("gpuhpc/labels.txt"),
             hierarchy = folder.model_file("gpuhpc/label_hierarchy.txt");
  if (!fs::exists(path)) return;
  if (!labels || !hierarchy) {
    model.warnings.push_back(
        "Predictions are left out: model/gpuhpc with their classes is not there.");
    return;
  }
  const Taxonomy taxonomy = Taxonomy::load(*labels, *hierarchy);
  const Predictions predictions = read_predictions(path, taxonomy);
  fill_classes(model, taxonomy, predictions.labels);
  std::vector<ExampleLabels> examples;
  if (const fs::path file = folder.path() / "evaluation.json"; fs::exists(file)) {
    EvaluationDetails details = read_evaluation(file);
    check_classes(details, taxonomy, file);
    fill_evaluation(model, details);
    examples = std::move(details.examples);
  } else {
    model.histograms = score_histograms(predictions.scores, predictions.labels, {});
    examples = examples_without_gold(predictions, folder.options().eval);
  }
  add_examples(model, folder, taxonomy, predictions, examples);
  model.title = fmt::format("{} documents, {} classes", format_count(model.documents),
                            format_count(taxonomy.size()));
}

std::vector<ReportRank> ranks_of(const RunFolder& folder) {
  const auto file = folder.rank_lines();
  std::vector<ReportRank> ranks = file ? read_ranks(*file) : std::vector<ReportRank>{};
  std::vector<double> seconds_a_token;
  for (const ReportRank& rank : ranks)
    seconds_a_token.push_back(rank.tokens > 0 ? rank.compute / static_cast<double>(rank.tokens)
                                              : 0);
  if (const auto slow = slow_rank(seconds_a_token)) ranks[slow->rank].times_slower = slow->times;
  return ranks;
}

TrainingLines lines_of(const RunFolder& folder) {
  const std::vector<RunTraining> trainings = folder.trainings();
  TrainingLines lines =
      trainings.empty() ? TrainingLines{} : read_training_lines(trainings.front().lines);
  lines.run = folder.name();
  return lines;
}

// What an unfinished run does not have yet. `run` in front of each sentence when there are several.
void add_warnings(std::vector<std::string>& warnings, const RunFolder& folder,
                  const TrainingLines& lines, const std::string& run) {
  const std::vector<std::string> missing = folder.missing();
  if (!missing.empty()) {
    warnings.push_back(
        fmt::format("{}The run is not finished: {} {} missing. The same command goes on with it.",
                    run, joined(missing), missing.size() == 1 ? "is" : "are"));
    if (const auto trainings = folder.trainings();
        !trainings.empty() && !trainings.front().finished && !lines.steps.empty())
      warnings.push_back(
          fmt::format("{}The training curves go as far as step {:.0f}.", run, lines.steps.back()));
    if (fs::exists(folder.path() / "predictions.jsonl"))
      warnings.push_back(run +
                         "Predictions and metrics are those of an earlier run in this folder.");
  }
  for (const std::string& warning : folder.facts().warnings) warnings.push_back(run + warning);
}

std::vector<ReportDifference> differences(const std::vector<RunFolder>& folders) {
  std::set<std::string> names;
  for (const RunFolder& folder : folders)
    for (const auto& [name, value] : folder.config()) names.insert(name);
  std::vector<ReportDifference> list;
  for (const std::string& name : names) {
    ReportDifference difference{name, {}};
    for (const RunFolder& folder : folders) {
      const auto found = folder.config().find(name);
      difference.values.push_back(found == folder.config().end() ? "" : found->second);
    }
    const bool same = std::ranges::all_of(difference.values, [&](const std::string& value) {
      return value == difference.values.front();
    });
    if (!same && name != "run.dir") list.push_back(std::move(difference));
  }
  return list;
}

// Names of runs: the last part of their paths, the whole path where two are alike.
std::vector<std::string> names_of(const std::vector<RunFolder>& folders) {
  std::vector<std::string> names;
  for (const RunFolder& folder : folders) {
    const auto alike = std::ranges::count_if(
        folders, [&](const RunFolder& other) { return other.name() == folder.name(); });
    names.push_back(alike > 1 ? folder.path().string() : folder.name());
  }
  return names;
}

}  // namespace

void write_run_facts(const CommandContext& c, const fs::path& run,
                     const std::vector<std::string>& warnings,
                     const std::vector<StageTime>& times) {
  std::vector<std::string> reused;
  for (const StageTime& time : times)
    if (time.skipped) reused.push_back(time.name);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"command", c.command_line},
      {"date", today()},
      {"version", GPUHPC_VERSION},
      {"ranks", fmt::format("{} on {}", c.comm.size(), c.comm.host())},
      {"device", describe(c.device)}};
  write_json(run / "run.json",
             nlohmann::ordered_json{
                 {"facts", facts},
                 {"input", fs::absolute(c.options.teleclass.input.dir).lexically_normal().string()},
                 {"warnings", warnings},
                 {"reused", reused}});
}

ReportModel make_run_report(const fs::path& run) {
  const RunFolder folder(run);
  const Options o = folder.options();
  ReportModel model;
  model.stages = folder.stages();
  double seconds = 0;
  for (const ReportStage& stage : model.stages) seconds += stage.seconds;
  model.facts = folder.facts().facts;
  model.facts.insert(model.facts.end(), {{"preset", o.preset},
                                         {"input", o.teleclass.input.dir},
                                         {"encoder", o.teleclass.model.encoder},
                                         {"stage time", format_duration(seconds)}});
  model.config = read_text_file(run / "config.ini");
  TrainingLines lines = lines_of(folder);
  add_warnings(model.warnings, folder, lines, "");
  lines.run.clear();
  model.curves = training_curves(lines);
  const std::vector<RunTraining> trainings = folder.trainings();
  for (std::size_t i = 1; i < trainings.size(); ++i)
    for (ReportCurve& curve : training_curves(read_training_lines(trainings[i].lines))) {
      curve.title = trainings[i].stage + ": " + curve.title;
      model.curves.push_back(std::move(curve));
    }
  model.splits.push_back(step_split(lines));
  model.ranks = ranks_of(folder);
  model.title = folder.name();
  add_predictions(model, folder);
  const fs::path input = fs::path(o.teleclass.input.dir).lexically_normal();
  if (model.documents > 0)
    model.title = fmt::format(
        "{}: {}", (input.has_filename() ? input : input.parent_path()).filename().string(),
        model.title);
  return model;
}

ReportModel compare_runs(const std::vector<fs::path>& runs) {
  std::vector<RunFolder> folders;
  for (const fs::path& run : runs) folders.emplace_back(run);
  const std::vector<std::string> names = names_of(folders);
  ReportModel model;
  model.title = fmt::format("{} runs: {}", runs.size(), joined(names));
  std::vector<TrainingLines> lines;
  for (std::size_t r = 0; r < folders.size(); ++r) {
    const RunFolder& folder = folders[r];
    lines.push_back(lines_of(folder));
    lines.back().run = names[r];
    add_warnings(model.warnings, folder, lines.back(), names[r] + ": ");
    const fs::path evaluation = folder.path() / "evaluation.json";
    model.runs.push_back({names[r],
                          fs::exists(evaluation) ? read_evaluation(evaluation).evaluation.figures
                                                 : std::vector<Figure>{},
                          folder.stages()});
    if (ReportSplit split = step_split(lines.back()); !split.parts.empty())
      model.splits.push_back(std::move(split));
    for (ReportRank& rank : ranks_of(folder)) {
      rank.run = names[r];
      model.ranks.push_back(std::move(rank));
    }
    model.facts.emplace_back(names[r], fs::absolute(folder.path()).lexically_normal().string());
  }
  model.differences = differences(folders);
  model.curves = compare_curves(lines);
  return model;
}

}  // namespace gpuhpc
