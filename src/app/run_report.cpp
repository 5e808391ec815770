#include "gpuhpc/app/run_report.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <unordered_map>

#include "gpuhpc/app/run_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/report/page.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "gpuhpc/report/training.hpp"
#include "gpuhpc/train/watch.hpp"

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

// From the token shards of the labelled texts.
std::vector<std::string> read_texts(const RunFolder& folder,
                                    const std::vector<ExampleLabels>& examples,
                                    std::vector<std::string>& warnings) {
  std::unordered_map<std::string, std::size_t> wanted;
  std::vector<std::string> texts(examples.size());
  if (examples.empty()) return texts;
  for (std::size_t i = 0; i < examples.size(); ++i) wanted[examples[i].id] = i;
  const auto manifest = folder.stage_file("tokens/manifest.json");
  if (!manifest) {
    warnings.emplace_back("The examples are shown without their texts: the token shards are gone.");
    return texts;
  }
  try {
    const TokenDataset documents(manifest->parent_path());
    for (std::int64_t i = 0; i < documents.size(); ++i)
      if (const auto found = wanted.find(std::string(documents.id(i))); found != wanted.end())
        texts[found->second] = documents.text(i);
  } catch (const Error& error) {
    warnings.push_back(
        fmt::format("The examples are shown without their texts: {}.", error.what()));
  }
  return texts;
}

// Class ids are positions in `classes` of the report; scores in the order of `predicted`.
Json examples_data(const RunFolder& folder, const Predictions& predictions,
                   const std::vector<ExampleLabels>& examples, std::vector<std::string>& warnings) {
  constexpr std::size_t text_kept = 4400;  // bytes
  std::unordered_map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < predictions.ids.size(); ++i) rows[predictions.ids[i]] = i;
  const std::vector<std::string> texts = read_texts(folder, examples, warnings);
  Json list = Json::array();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const ExampleLabels& example = examples[i];
    const auto row = rows.find(example.id);
    Json scores = Json::array();
    if (row != rows.end() && !predictions.scores.empty())
      for (const std::int32_t c : example.predicted) {
        const auto& known = predictions.scores[row->second];
        const auto score = std::ranges::find(known, c, &ClassScore::class_id);
        scores.push_back(score == known.end() ? Json(nullptr) : Json(score->score));
      }
    list.push_back({{"id", example.id},
                    {"text", shortened(texts[i], text_kept)},
                    {"predicted", example.predicted},
                    {"gold", example.gold},
                    {"scores", scores}});
  }
  return list;
}

Json classes_data(const Taxonomy& taxonomy,
                  const std::vector<std::vector<std::int32_t>>& predicted) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(taxonomy.size()), 0);
  for (const auto& document : predicted)
    for (const std::int32_t c : document) ++counts[static_cast<std::size_t>(c)];
  Json list = Json::array();
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(taxonomy.size()); ++c)
    list.push_back({{"title", taxonomy.title(c)},
                    {"parents", taxonomy.parents(c)},
                    {"children", taxonomy.children(c)},
                    {"predicted", counts[static_cast<std::size_t>(c)]}});
  return list;
}

Json histogram_data(const ScoreHistogram& histogram) {
  return {{"correct", histogram.correct}, {"wrong", histogram.wrong}};
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

// Reliability, of scores that are probabilities, and risk by coverage, as curves.
void add_calibration(Json& report, const EvaluationDetails& details) {
  const RiskCoverage& coverage = details.coverage;
  if (coverage.risk.empty()) return;
  Json series = Json::array();
  const auto add = [&](const char* name, const char* error, const ScoreHistogram& histogram) {
    const Figure* figure = details.evaluation.find(error);
    if (figure == nullptr || !figure->value) return;
    Json x = Json::array(), y = Json::array();
    for (std::size_t bin = 0; bin < ScoreHistogram::bins; ++bin)
      if (const auto count = static_cast<double>(histogram.count(bin)); count > 0) {
        x.push_back(histogram.sums[bin] / count);
        y.push_back(static_cast<double>(histogram.correct[bin]) / count);
      }
    series.push_back({{"name", name}, {"x", x}, {"y", y}});
  };
  add("best class", "ece_best", details.histograms.best);
  add("predicted classes", "ece_labels", details.histograms.predicted);
  if (!series.empty()) {
    series.push_back({{"name", "score = share"}, {"x", {0, 1}}, {"y", {0, 1}}});
    report["reliability"] = {
        {"title", "Share that is right, by score"}, {"x_label", "score"}, {"series", series}};
  }
  Json taken = Json::array();
  for (std::size_t i = 1; i <= RiskCoverage::points; ++i)
    taken.push_back(static_cast<double>(i) / RiskCoverage::points);
  report["risk"] = {{"title", "Share of wrong best classes, by how many of the surest are taken"},
                    {"x_label", "share of the documents"},
                    {"series", {{{"name", "wrong"}, {"x", taken}, {"y", coverage.risk}}}}};
}

void add_predictions(Json& report, const RunFolder& folder, std::vector<std::string>& warnings) {
  const fs::path path = folder.path() / "predictions.jsonl";
  const auto labels = folder.model_file("gpuhpc/labels.txt"),
             hierarchy = folder.model_file("gpuhpc/label_hierarchy.txt");
  if (!fs::exists(path)) return;
  if (!labels || !hierarchy) {
    warnings.push_back("Predictions are left out: model/gpuhpc with their classes is not there.");
    return;
  }
  const Taxonomy taxonomy = Taxonomy::load(*labels, *hierarchy);
  const Predictions predictions = read_predictions(path, taxonomy);
  report["documents"] = predictions.ids.size();
  report["classes"] = classes_data(taxonomy, predictions.labels);
  std::vector<ExampleLabels> examples;
  ScoreHistograms histograms;
  if (const fs::path file = folder.path() / "evaluation.json"; fs::exists(file)) {
    EvaluationDetails details = read_evaluation(file);
    check_classes(details, taxonomy, file);
    report["evaluation"] = read_json(file);
    add_calibration(report, details);
    histograms = details.histograms;
    examples = std::move(details.examples);
  } else {
    histograms = score_histograms(predictions.scores, predictions.labels, {});
    examples = examples_without_gold(predictions, folder.options().eval);
  }
  report["histograms"] = {{"best", histogram_data(histograms.best)},
                          {"predicted", histogram_data(histograms.predicted)}};
  report["examples"] = examples_data(folder, predictions, examples, warnings);
}

// Every number of a job's metrics.json, those within objects behind their names; NAME_low and
// NAME_high are the interval of NAME.
void add_figures(const Json& json, const std::string& before, std::vector<Figure>& figures) {
  const auto number = [&](const std::string& name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
  };
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) add_figures(value, before + name + " ", figures);
    const std::size_t bound = name.ends_with("_low") ? 4 : name.ends_with("_high") ? 5 : 0;
    if ((bound > 0 && json.contains(name.substr(0, name.size() - bound))) ||
        !(value.is_number() || value.is_null()))
      continue;
    figures.push_back({before + name, number(name), number(name + "_low"), number(name + "_high")});
  }
}

// Of a label run those of evaluation.json.
std::vector<Figure> read_figures(const fs::path& run) {
  if (fs::exists(run / "evaluation.json"))
    return read_evaluation(run / "evaluation.json").evaluation.figures;
  std::vector<Figure> figures;
  if (fs::exists(run / "metrics.json")) add_figures(read_json(run / "metrics.json"), "", figures);
  return figures;
}

// samples.json: texts that a job wants to be looked at, [{title, about, columns, rows}].
Json read_samples(const fs::path& path) {
  if (!fs::exists(path)) return Json::array();
  Json tables = read_json(path);
  const auto texts = [](const Json& list) {
    return list.is_array() && std::ranges::all_of(list, [](const Json& cell) {
             return cell.is_string() || cell.is_number() || cell.is_null();
           });
  };
  const auto good = [&](const Json& table) {
    return table.is_object() && table.contains("title") && table.at("title").is_string() &&
           (!table.contains("about") || table.at("about").is_string()) &&
           table.contains("columns") && texts(table.at("columns")) && table.contains("rows") &&
           table.at("rows").is_array() &&
           std::ranges::all_of(table.at("rows"), [&](const Json& row) {
             return texts(row) && row.size() == table.at("columns").size();
           });
  };
  if (!tables.is_array() || !std::ranges::all_of(tables, good))
    throw input_error(
        "{}: not samples that this program wrote; remove it to have the report without it",
        path.string());
  return tables;
}

Json ranks_of(const RunFolder& folder) {
  const auto file = folder.rank_lines();
  Json ranks = file ? read_ranks(*file) : Json::array();
  std::vector<double> seconds_a_token;
  for (Json& rank : ranks) {
    rank["times_slower"] = 1;
    const double tokens = rank.value("tokens", 0.0), compute = rank.value("compute_seconds", 0.0);
    seconds_a_token.push_back(tokens > 0 ? compute / tokens : 0);
  }
  if (const auto slow = slow_rank(seconds_a_token))
    ranks[static_cast<std::size_t>(slow->rank)]["times_slower"] = slow->times;
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
        fmt::format("{}The run is not finished: {} {} missing. The same command continues it.", run,
                    joined(missing), missing.size() == 1 ? "is" : "are"));
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

Json run_data(const RunFolder& folder, const TrainingLines& lines) {
  Json stages = Json::array();
  for (const ReportStage& stage : folder.stages())
    stages.push_back({{"name", stage.name},
                      {"seconds", stage.seconds},
                      {"reused", stage.skipped},
                      {"memory", stage.memory},
                      {"gpu_memory", stage.gpu_memory}});
  return {{"name", lines.run},
          {"metrics", metrics_data(read_figures(folder.path()))},
          {"stages", stages},
          {"steps", step_split(lines)},
          {"ranks", ranks_of(folder)}};
}

Json differences(const std::vector<RunFolder>& folders) {
  std::set<std::string> names;
  for (const RunFolder& folder : folders)
    for (const auto& [name, value] : folder.config()) names.insert(name);
  Json list = Json::array();
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const RunFolder& folder : folders) {
      const auto found = folder.config().find(name);
      values.push_back(found == folder.config().end() ? "" : found->second);
    }
    const bool same = std::ranges::all_of(
        values, [&](const std::string& value) { return value == values.front(); });
    if (!same && name != "run.dir") list.push_back({{"option", name}, {"values", values}});
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

void write_run_facts(const CommandContext& c, const Job& job, const std::vector<StageTime>& times) {
  std::vector<std::string> reused;
  for (const StageTime& time : times)
    if (time.skipped) reused.push_back(time.name);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"command", c.command_line},
      {"date", today()},
      {"version", GPUHPC_VERSION},
      {"ranks", fmt::format("{} on {}", c.comm.size(), c.comm.host())},
      {"device", describe(c.device)}};
  write_json(job.pipeline.run_folder() / "run.json",
             nlohmann::ordered_json{{"facts", facts},
                                    {"input", fs::absolute(job.input).lexically_normal().string()},
                                    {"warnings", job.warnings},
                                    {"reused", reused}});
}

Json make_run_report(const fs::path& run) {
  const RunFolder folder(run);
  const Options o = folder.options();
  Json report;
  std::vector<std::string> warnings;
  TrainingLines lines = lines_of(folder);
  add_warnings(warnings, folder, lines, "");
  report["runs"] = Json::array({run_data(folder, lines)});
  double seconds = 0;
  for (const ReportStage& stage : folder.stages()) seconds += stage.seconds;
  auto facts = folder.facts().facts;
  facts.insert(facts.end(), {{"preset", o.pipeline.preset},
                             {"input", o.shared.input.dir},
                             {"encoder", o.shared.model.encoder},
                             {"stage time", format_duration(seconds)}});
  report["facts"] = facts;
  report["config"] = read_text_file(run / "config.ini");
  report["curves"] = training_curves(lines);
  const std::vector<RunTraining> trainings = folder.trainings();
  for (std::size_t i = 1; i < trainings.size(); ++i)
    for (Json curve : training_curves(read_training_lines(trainings[i].lines))) {
      curve["title"] = trainings[i].stage + ": " + curve["title"].get<std::string>();
      report["curves"].push_back(std::move(curve));
    }
  add_predictions(report, folder, warnings);
  report["samples"] = read_samples(run / "samples.json");
  report["title"] = folder.name();
  const fs::path input = fs::path(o.shared.input.dir).lexically_normal();
  if (report.contains("documents"))
    report["title"] =
        fmt::format("{}: {} documents, {} classes",
                    (input.has_filename() ? input : input.parent_path()).filename().string(),
                    format_count(report["documents"]), format_count(std::ssize(report["classes"])));
  report["warnings"] = warnings;
  return report;
}

Json compare_runs(const std::vector<fs::path>& runs) {
  std::vector<RunFolder> folders;
  for (const fs::path& run : runs) folders.emplace_back(run);
  const std::vector<std::string> names = names_of(folders);
  Json report = {{"title", fmt::format("{} runs: {}", runs.size(), joined(names))},
                 {"facts", Json::array()},
                 {"runs", Json::array()}};
  std::vector<TrainingLines> lines;
  std::vector<std::string> warnings;
  for (std::size_t r = 0; r < folders.size(); ++r) {
    const RunFolder& folder = folders[r];
    lines.push_back(lines_of(folder));
    lines.back().run = names[r];
    add_warnings(warnings, folder, lines.back(), names[r] + ": ");
    report["runs"].push_back(run_data(folder, lines.back()));
    report["facts"].push_back({names[r], fs::absolute(folder.path()).lexically_normal().string()});
  }
  report["warnings"] = warnings;
  report["differences"] = differences(folders);
  report["curves"] = compare_curves(lines);
  return report;
}

}  // namespace gpuhpc
