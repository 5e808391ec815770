#include "gpuhpc/app/run_folder.hpp"

#include <algorithm>

#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/config/ini.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// As run wrote it. Any option may stand there: those of an older program are not known any more.
std::map<std::string, std::string> read_config(const fs::path& path) {
  std::map<std::string, std::string> values;
  for (config::IniLine& line : config::read_ini(path))
    values.insert_or_assign(std::move(line.name), std::move(line.value));
  return values;
}

std::vector<std::string> texts_at(const Json& json, const char* key) {
  return json.at(key).get<std::vector<std::string>>();
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  std::error_code none;
  if (!fs::is_directory(path_, none))
    throw input_error("{}: there is no such folder; name run folders (--run.dir of a run)",
                      path_.string());
  if (!fs::is_regular_file(path_ / "config.ini", none))
    throw input_error(
        "{}: this is not a run folder, config.ini is missing; name the --run.dir of a run",
        path_.string());
  config_ = read_config(path_ / "config.ini");
  const Ledger ledger(path_);
  pipeline_ = ledger.order();
  for (const std::string& stage : pipeline_) {
    const LedgerEntry* entry = ledger.find(stage);
    if (entry == nullptr) continue;
    if (!(entry->cost.seconds >= 0 && entry->cost.seconds < 1e9))
      throw input_error("{}: stage {} took {} seconds; gpuhpc did not write this ledger",
                        (path_ / "ledger.json").string(), stage, entry->cost.seconds);
    costs_[stage] = entry->cost;
  }
}

std::string RunFolder::name() const {
  const fs::path path = fs::absolute(path_).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

Options RunFolder::options() const {
  Options options;
  config::OptionSet set;
  declare_options(set, options);
  std::vector<std::string> given;
  for (const char* name :
       {"input.format", "input.id-field", "input.text-field", "eval.seed", "eval.examples"})
    if (const auto found = config_.find(name); found != config_.end())
      given.push_back(fmt::format("--{}={}", name, found->second));
  try {
    set.parse({}, given);
  } catch (const Error& error) {
    throw input_error("{}: {}", (path_ / "config.ini").string(), error.what());
  }
  const auto text = [&](const char* name) {
    const auto found = config_.find(name);
    return found == config_.end() ? std::string() : found->second;
  };
  options.shared.input.dir = facts().input.empty() ? text("input.dir") : facts().input;
  options.shared.model.encoder = text("model.encoder");
  options.pipeline.preset = text("pipeline.preset");
  return options;
}

RunFacts RunFolder::facts() const {
  const fs::path path = path_ / "run.json";
  if (!fs::exists(path)) return {};
  const Json json = read_json(path);
  try {
    RunFacts facts;
    for (const Json& fact : json.at("facts")) facts.facts.emplace_back(fact.at(0), fact.at(1));
    facts.warnings = texts_at(json, "warnings");
    facts.reused = texts_at(json, "reused");
    facts.input = json.at("input").get<std::string>();
    return facts;
  } catch (const Json::exception& e) {
    throw input_error(
        "{}: gpuhpc did not write this file ({}); remove it to make the report without it",
        path.string(), e.what());
  }
}

bool RunFolder::finished(const std::string& stage) const { return costs_.contains(stage); }

fs::path RunFolder::stage_folder(const std::string& stage) const {
  const auto number = std::ranges::find(pipeline_, stage) - pipeline_.begin() + 1;
  return path_ / "stages" / fmt::format("{:02d}-{}", number, stage);
}

std::vector<ReportStage> RunFolder::stages() const {
  std::vector<ReportStage> stages;
  const std::vector<std::string> reused = facts().reused;
  for (const std::string& stage : pipeline_)
    if (finished(stage)) {
      const StageCost& cost = costs_.at(stage);
      stages.push_back({stage, cost.seconds, std::ranges::find(reused, stage) != reused.end(),
                        cost.memory, cost.gpu_memory});
    }
  return stages;
}

std::vector<std::string> RunFolder::missing() const {
  std::vector<std::string> names;
  std::ranges::copy_if(pipeline_, std::back_inserter(names),
                       [&](const std::string& stage) { return !finished(stage); });
  return names;
}

std::optional<fs::path> RunFolder::stage_file(const fs::path& name) const {
  std::optional<fs::path> found;
  for (const std::string& stage : pipeline_)
    if (const fs::path file = stage_folder(stage) / name; fs::is_regular_file(file)) found = file;
  return found;
}

std::vector<RunTraining> RunFolder::trainings() const {
  std::vector<RunTraining> list;
  for (const std::string& stage : pipeline_)
    if (fs::path file = stage_folder(stage) / "metrics.jsonl"; fs::is_regular_file(file))
      list.push_back({stage, std::move(file)});
  std::optional<RunTraining> newest;
  for (const std::string& stage : pipeline_) {
    const fs::path folder = path_ / "checkpoints" / stage;
    if (!fs::is_directory(folder) ||
        std::ranges::find(list, stage, &RunTraining::stage) != list.end())
      continue;
    for (const auto& entry : fs::directory_iterator(folder))
      if (const fs::path file = entry.path() / "metrics.jsonl";
          fs::is_regular_file(file) &&
          (!newest || fs::last_write_time(file) > fs::last_write_time(newest->lines)))
        newest = {stage, file, false};
  }
  if (newest) list.push_back(std::move(*newest));
  if (const fs::path published = path_ / "metrics.jsonl";
      list.empty() && fs::is_regular_file(published))
    list.push_back({"", published});
  return list;
}

std::optional<fs::path> RunFolder::rank_lines() const {
  const std::vector<RunTraining> list = trainings();
  if (list.empty()) return std::nullopt;
  const fs::path file = list.front().lines.parent_path() / "ranks.jsonl";
  return fs::is_regular_file(file) ? std::optional(file) : std::nullopt;
}

std::optional<fs::path> RunFolder::model_file(const std::string& name) const {
  if (const fs::path file = path_ / "model" / name; fs::is_regular_file(file)) return file;
  return stage_file(fs::path("model") / name);
}

}  // namespace gpuhpc
