#include "gpuhpc/app/plan_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

std::string family(const PlannedModel& model) {
  return model.is_t5() ? model.t5().model_type : model.encoder().model_type;
}

Json key_of(const PlanRequest& r, const PlannedWork& work) {
  return {{"device", r.gpu.name},
          {"job", static_cast<int>(work.job)},
          {"family", family(r.model)},
          {"precision", work.precision},
          {"checkpointing", work.checkpointing},
          {"dropout", work.dropout > 0},
          {"columns", work.columns},
          {"over_batch", work.over_batch}};
}

// Where the job reads its model.
std::string model_option(const PlanOptions& options) {
  switch (options.job_kind()) {
    case PlanJob::seq2seq:
      return "seq2seq.model";
    case PlanJob::pretrain:
      return "pretrain.model";
    case PlanJob::generate:
      return "model.dir";
    default:
      return options.job == "predict" ? "model.dir" : "model.encoder";
  }
}

bool has_key(const Json& trial, const Json& key) {
  return std::ranges::all_of(key.items(), [&](const auto& part) {
    return trial.contains(part.key()) && trial[part.key()] == part.value();
  });
}

}  // namespace

void CalibrationFile::read(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  const Json file = read_json(path);
  const bool whole = file.is_object() && file.contains("trials") && file["trials"].is_array() &&
                     std::ranges::all_of(file["trials"], [](const Json& trial) {
                       return trial.is_object() && trial.contains("memory") &&
                              trial["memory"].is_number() && trial.contains("time") &&
                              trial["time"].is_number() && trial.contains("model") &&
                              trial["model"].is_string();
                     });
  if (!whole)
    throw input_error(
        "{}: this is no file that `gpuhpc plan --plan.calibrate true` wrote; name another one",
        path.string());
  trials_ = file["trials"];
}

void CalibrationFile::write(const std::filesystem::path& path) const {
  write_json(path, Json{{"trials", trials_}});
}

void CalibrationFile::add(const PlanRequest& r, const PlannedWork& work, const PlannedBatch& batch,
                          const MemoryParts& predicted, double predicted_seconds,
                          std::int64_t measured, double measured_seconds) {
  Json trial = key_of(r, work);
  trial["model"] = r.model.name;
  trial["documents"] = batch.documents, trial["length"] = batch.length;
  const Json known = trial;
  std::erase_if(trials_.get_ref<Json::array_t&>(),
                [&](const Json& old) { return has_key(old, known); });
  trial["predicted"] = predicted.total(), trial["measured"] = measured;
  trial["memory"] =
      std::max(.1, static_cast<double>(measured - predicted.kept()) /
                       static_cast<double>(std::max<std::int64_t>(1, predicted.moving())));
  trial["time"] = measured_seconds / predicted_seconds;
  trial["seconds"] = measured_seconds;
  trials_.push_back(trial);
}

Calibration CalibrationFile::find(const PlanRequest& r, const PlannedWork& work) const {
  const Json key = key_of(r, work);
  Calibration found{.memory = 0, .time = 0, .from = {}};
  for (const Json& trial : trials_) {
    if (!has_key(trial, key)) continue;
    found.memory = std::max(found.memory, trial.at("memory").get<double>());
    found.time = std::max(found.time, trial.at("time").get<double>());
    found.from = trial.at("model").get<std::string>();
  }
  return found.from.empty() ? Calibration{} : found;
}

nlohmann::ordered_json plan_json(const PlanRequest& r, const Plan& plan) {
  nlohmann::ordered_json json{
      {"model", r.model.name},
      {"parameters", parameter_count(r.model, r.work.job == PlanJob::pretrain)},
      {"gpu", r.gpu.name},
      {"ranks", r.work.ranks},
      {"memory_for_tensors", plan.limit},
      {"global_batch", r.global_batch},
      {"length", r.length},
      {"target_length", r.target_length},
      {"fits", plan.fits()},
      {"evaluation_documents", plan.evaluation},
      {"inference_documents", plan.inference},
      {"inference_seconds", plan.inference_seconds},
      {"inference_memory", to_json(plan.inference_parts)},
      {"candidates", nlohmann::ordered_json::array()},
      {"advice", plan.advice}};
  for (const PlanCandidate& one : plan.candidates)
    json["candidates"].push_back({{"precision", one.work.precision},
                                  {"activation_checkpointing", one.work.checkpointing},
                                  {"zero1", one.work.zero1},
                                  {"optimizer", one.work.optimizer},
                                  {"micro_batch", one.micro_batch},
                                  {"accumulation", one.accumulation},
                                  {"largest_micro_batch", one.largest},
                                  {"memory", to_json(one.memory)},
                                  {"bytes", one.bytes},
                                  {"step_seconds", one.step_seconds},
                                  {"tokens_per_second", one.tokens_per_second}});
  return json;
}

std::string plan_config(const PlanRequest& r, const Plan& plan, const config::OptionSet& set,
                        const PlanOptions& options) {
  const PlanCandidate& best = plan.candidates.front();
  std::map<std::string, std::string> values;
  if (is_training(r.work.job)) {
    values = {{"train.batch", std::to_string(r.global_batch)},
              {"train.batch-per-rank", "0"},
              {"train.micro-batch", std::to_string(best.micro_batch)},
              {"train.precision", best.work.precision},
              {"train.activation-checkpointing", best.work.checkpointing ? "true" : "false"},
              {"parallel.strategy", best.work.zero1 ? "zero1" : "ddp"}};
    if (!r.model.is_t5()) values["train.max-length"] = std::to_string(r.length);
    // More at once is no faster, and would leave ranks without any.
    constexpr std::int64_t enough = 64;
    if (!set.given("train.eval-batch"))
      values["train.eval-batch"] = std::to_string(std::min(plan.evaluation, enough));
    if (!set.given("train.on-out-of-memory"))
      values["train.on-out-of-memory"] =
          fmt::format("{}", fmt::join(out_of_memory_steps(r, best), "; "));
  } else {
    values["infer.precision"] = best.work.precision;
  }
  // On a processor these are of a thread.
  const std::int64_t texts = std::max<std::int64_t>(
      1, plan.inference / (best.work.cuda ? 1 : std::max<std::int64_t>(1, best.work.threads)));
  if (plan.inference > 0) values["infer.batch"] = std::to_string(texts);
  // On a GPU what may be written counts, too.
  const std::int64_t written =
      best.work.cuda && r.model.is_t5() ? best.work.beams * r.target_length : 0;
  values["infer.token-budget"] = std::to_string(texts * (r.length + written));
  if (r.model.is_t5()) {
    values["seq2seq.source-length"] = std::to_string(r.length);
    values[is_training(r.work.job) ? "seq2seq.target-length" : "generate.max-length"] =
        std::to_string(r.target_length);
  }
  std::string text =
      fmt::format("# gpuhpc {} --config THIS: {} on {} rank{} of {}\n", options.job, r.model.name,
                  r.work.ranks, r.work.ranks == 1 ? "" : "s", r.gpu.name);
  if (!options.model.empty()) {
    const std::string name = model_option(options);
    const bool new_t5 = options.model == "t5-small" || options.model == "t5-base",
               new_bert = options.model == "small" || options.model == "medium" ||
                          options.model == "large";
    if (std::filesystem::is_directory(options.model) || (name == "pretrain.model" && new_bert))
      values[name] = options.model;
    else if (name == "seq2seq.model" && new_t5)
      values[name] = options.model.substr(3);
    else
      text += fmt::format("# {} is planned for, but no folder: give its own with --{}\n",
                          options.model, name);
  }
  std::istringstream lines(set.ini());
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) section = line.substr(1, line.find(']') - 1);
    if (section == "plan") continue;
    const std::string bare = line.starts_with("# ") ? line.substr(2) : line,
                      key = section + "." + bare.substr(0, bare.find(" ="));
    const auto found = values.find(key);
    text += found == values.end() || bare.find(" =") == std::string::npos
                ? line + "\n"
                : fmt::format("{} = {}\n", bare.substr(0, bare.find(" =")), found->second);
  }
  return text;
}

}  // namespace gpuhpc
