#include "gpuhpc/app/ledger.hpp"

#include <algorithm>
#include <chrono>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

void add_files(Fingerprint& fingerprint, const fs::path& path) {
  if (!fs::is_directory(path)) {
    fingerprint.add_file(path);
    return;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files)
    fingerprint.add(fs::relative(file, path).string()).add_file(file);
}

std::map<std::string, std::int64_t> output_sizes(const fs::path& folder,
                                                 const std::vector<std::string>& outputs) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& output : outputs) {
    const fs::path path = folder / output;
    if (!fs::exists(path)) throw internal_error("the stage did not write {}", path.string());
    if (fs::is_regular_file(path)) sizes[output] = static_cast<std::int64_t>(fs::file_size(path));
    if (fs::is_directory(path))
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file())
          sizes[fs::relative(entry.path(), folder).string()] =
              static_cast<std::int64_t>(entry.file_size());
  }
  return sizes;
}

void check_stage_name(const std::vector<Stage>& stages, const std::string& name,
                      const char* option) {
  std::string known;
  for (const Stage& stage : stages) {
    if (name.empty() || stage.name == name) return;
    known += (known.empty() ? "" : ", ") + stage.name;
  }
  throw usage_error("--pipeline.{} {}: no such stage; the stages are {}", option, name, known);
}

// "section.key = value" of all that the outputs depend on.
std::vector<std::string> option_lines(const Stage& stage, const config::OptionSet& options) {
  std::vector<std::string> lines;
  for (const std::string& prefix : stage.options)
    for (const std::string& line : options.resolved(prefix))
      if (std::ranges::find(stage.free_options, line.substr(0, line.find(' '))) ==
          stage.free_options.end())
        lines.push_back(line);
  return lines;
}

std::size_t position(const std::vector<Stage>& stages, const std::string& name,
                     std::size_t fallback) {
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages[i].name == name) return i;
  return fallback;
}

}  // namespace

Ledger::Ledger(fs::path run_folder) : path_(std::move(run_folder) / "ledger.json") {
  if (!fs::exists(path_)) return;
  try {
    const Json json = read_json(path_);
    for (const auto& [name, value] : json.at("stages").items())
      entries_[name] = {value.at("fingerprint"), value.at("seconds"),
                        value.at("outputs").get<std::map<std::string, std::int64_t>>()};
  } catch (const Json::exception& e) {
    throw input_error("{}: not a ledger of ours ({}); remove it to start the run afresh",
                      path_.string(), e.what());
  }
}

const LedgerEntry* Ledger::find(const std::string& stage) const {
  const auto found = entries_.find(stage);
  return found == entries_.end() ? nullptr : &found->second;
}

void Ledger::finish(const std::string& stage, LedgerEntry entry) {
  entries_[stage] = std::move(entry);
  save();
}

void Ledger::forget(const std::string& stage) {
  if (entries_.erase(stage) > 0) save();
}

void Ledger::save() const {
  Json stages = Json::object();
  for (const auto& [name, entry] : entries_)
    stages[name] = {
        {"fingerprint", entry.fingerprint}, {"seconds", entry.seconds}, {"outputs", entry.outputs}};
  write_json(path_, Json{{"stages", stages}});
}

bool Ledger::holds(const std::string& stage, const std::string& fingerprint,
                   const fs::path& folder) const {
  const LedgerEntry* entry = find(stage);
  if (entry == nullptr || entry->fingerprint != fingerprint) return false;
  return std::all_of(entry->outputs.begin(), entry->outputs.end(), [&](const auto& output) {
    const fs::path path = folder / output.first;
    return fs::is_regular_file(path) &&
           static_cast<std::int64_t>(fs::file_size(path)) == output.second;
  });
}

std::string stage_fingerprint(const Stage& stage, const config::OptionSet& options,
                              const std::map<std::string, std::string>& earlier) {
  Fingerprint fingerprint;
  fingerprint.add(stage.name);
  for (const std::string& line : option_lines(stage, options)) fingerprint.add(line);
  for (const fs::path& file : stage.files) add_files(fingerprint, file);
  for (const std::string& name : stage.after) fingerprint.add(name).add(earlier.at(name));
  return fingerprint.hex();
}

StageDecision decide(const Stage& stage, bool holds, bool earlier_ran, const std::string& forced) {
  return holds && !earlier_ran && stage.name != forced ? StageDecision::skip : StageDecision::run;
}

namespace {

// One stage, from empty temporary folder to ledger entry.
double run_stage(const Stage& stage, StageContext context, Ledger& ledger) {
  Communicator& comm = context.comm;
  const fs::path folder = context.folder_of(stage.name), partial = folder.string() + ".partial";
  on_root(comm, [&] {
    ledger.forget(stage.name);
    fs::remove_all(folder);
    fs::remove_all(partial);
    create_folder(partial);
  });
  const auto start = std::chrono::steady_clock::now();
  context.folder = partial;
  stage.run(context);
  comm.barrier();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  on_root(comm, [&] {
    auto sizes = output_sizes(partial, stage.outputs);
    rename_synced(partial, folder);
    ledger.finish(stage.name, {context.task.fingerprint, seconds, std::move(sizes)});
    std::error_code ignored;  // they do no harm
    fs::remove_all(context.checkpoints, ignored);
    fs::remove(context.checkpoints.parent_path(),
               ignored);  // when it is empty: those of other options stay for them
    fs::remove(context.checkpoints.parent_path().parent_path(), ignored);
  });
  return seconds;
}

}  // namespace

fs::path stage_folder(const fs::path& run_folder, const std::vector<Stage>& stages,
                      std::size_t stage) {
  return run_folder / "stages" / fmt::format("{:02d}-{}", stage + 1, stages[stage].name);
}

std::vector<StageTime> run_stages(const std::vector<Stage>& stages,
                                  const config::OptionSet& options, const PipelineRange& range,
                                  const fs::path& run_folder, Communicator& comm, const Log& log,
                                  const DeviceChoice& device,
                                  const std::function<bool()>& stop_requested) {
  check_stage_name(stages, range.from, "from");
  check_stage_name(stages, range.to, "to");
  check_stage_name(stages, range.force, "force");
  const auto folder_of = [&](const std::string& name) {
    return stage_folder(run_folder, stages, position(stages, name, 0));
  };
  Ledger ledger(run_folder);
  std::map<std::string, std::string> fingerprints;
  std::vector<std::string> lines;  // of this stage and all before it
  std::vector<StageTime> times;
  const std::size_t first = position(stages, range.from, 0),
                    last = position(stages, range.to, stages.size() - 1);
  bool earlier_ran = false;
  for (std::size_t i = 0; i <= last; ++i) {
    const Stage& stage = stages[i];
    for (const std::string& line : option_lines(stage, options))
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    std::int32_t skip = 0;
    on_root(comm, [&] {
      fingerprints[stage.name] = stage_fingerprint(stage, options, fingerprints);
      const bool holds = ledger.holds(stage.name, fingerprints[stage.name], folder_of(stage.name));
      if (i < first && !holds)
        throw usage_error(
            "--pipeline.from {}: the earlier stage {} is not finished with these options; start "
            "from it",
            range.from, stage.name);
      skip = decide(stage, holds, earlier_ran, range.force) == StageDecision::skip ? 1 : 0;
    });
    comm.broadcast(&skip, 1, DataType::int32, 0);
    if (skip != 0) {
      const LedgerEntry* entry = ledger.find(stage.name);
      times.push_back({stage.name, entry ? entry->seconds : 0, true});
      if (comm.is_root())
        log->info("stage {}/{} {}: finished before, skipped", i + 1, stages.size(), stage.name);
      continue;
    }
    const std::string fingerprint = comm.broadcast_string(fingerprints[stage.name]);
    const StageContext context{comm,
                               log,
                               device,
                               {},
                               folder_of,
                               run_folder / "checkpoints" / stage.name / fingerprint.substr(0, 16),
                               {fingerprint, lines},
                               stop_requested,
                               run_folder,
                               stage.name};
    context.leave_together_if_asked();
    if (comm.is_root()) log->info("stage {}/{} {}", i + 1, stages.size(), stage.name);
    times.push_back({stage.name, run_stage(stage, context, ledger), false});
    earlier_ran = true;
    if (comm.is_root())
      log->info("stage {}/{} {} took {}; peak memory {} MiB{}", i + 1, stages.size(), stage.name,
                format_duration(times.back().seconds), peak_memory() >> 20,
                stage.elsewhere.empty()
                    ? ""
                    : fmt::format(" (the guide of the Python set-up states {})", stage.elsewhere));
  }
  return times;
}

}  // namespace gpuhpc
