#include "gpuhpc/app/ledger.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>

#include "gpuhpc/app/gpu_log.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// What stages leave for each other; another number makes every stage run again, another
// Stage::format that one and its readers.
constexpr std::int64_t stage_format = 3;

std::string content_hash(const fs::path& file) {
  Fingerprint fingerprint;
  return fingerprint.add_file(file).hex();
}

// The file itself, or all files of a folder.
std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::map<std::string, std::string> output_hashes(const fs::path& folder,
                                                 const std::vector<std::string>& outputs) {
  std::map<std::string, std::string> hashes;
  for (const std::string& output : outputs) {
    if (!fs::exists(folder / output))
      throw internal_error("the stage did not write {}", (folder / output).string());
    for (const fs::path& file : files_of(folder / output))
      hashes[fs::relative(file, folder).string()] = content_hash(file);
  }
  return hashes;
}

std::size_t position(const std::vector<Stage>& stages, const std::string& name,
                     std::size_t fallback) {
  const auto found = std::ranges::find(stages, name, &Stage::name);
  return found == stages.end() ? fallback : static_cast<std::size_t>(found - stages.begin());
}

// Of a stage, under any number: a pipeline with another number of stages may have left one.
std::vector<fs::path> folders_of(const fs::path& parent, const std::string& stage) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(parent, none)) {
    const std::string name = entry.path().filename().string();
    if (name.substr(name.find('-') + 1) == stage) found.push_back(entry.path());
  }
  return found;
}

// A stage more or less in front of it moves a finished stage to another number, and no more.
void settle_folders(const Pipeline& pipeline, const Ledger& ledger) {
  const fs::path parent = pipeline.run_folder() / "stages";
  if (!fs::is_directory(parent)) return;
  std::map<std::string, fs::path> present;
  for (const auto& entry : fs::directory_iterator(parent)) {
    const std::string name = entry.path().filename().string();
    if (const std::size_t dash = name.find('-'); dash != name.npos && !name.ends_with(".partial"))
      present[name.substr(dash + 1)] = entry.path();
  }
  std::vector<std::pair<fs::path, fs::path>> moves;
  for (std::size_t i = 0; i < pipeline.stages().size(); ++i) {
    const std::string& name = pipeline.stages()[i].name;
    const auto found = present.find(name);
    if (fs::exists(pipeline.folder(i))) continue;  // another one is a left-over
    if (ledger.find(name) != nullptr && found != present.end() &&
        found->second != pipeline.folder(i))
      moves.emplace_back(found->second, pipeline.folder(i));
  }
  for (const auto& [from, to] : moves) rename_synced(from, to);
}

}  // namespace

Ledger::Ledger(const fs::path& run_folder) : path_(run_folder / "ledger.json") {
  if (!fs::exists(path_)) return;
  try {
    const Json json = read_json(path_);
    order_ = json.at("order").get<std::vector<std::string>>();
    for (const auto& [name, value] : json.at("stages").items())
      entries_[name] = {value.at("fingerprint"),
                        {value.at("seconds"), integer(value.value("memory", Json(0))),
                         integer(value.value("gpu_memory", Json(0)))},
                        value.at("outputs").get<std::map<std::string, std::string>>()};
  } catch (const Json::exception& e) {
    throw input_error("{}: not a ledger of this version ({}); remove it to start the run afresh",
                      path_.string(), e.what());
  }
}

const LedgerEntry* Ledger::find(const std::string& stage) const {
  const auto found = entries_.find(stage);
  return found == entries_.end() ? nullptr : &found->second;
}

void Ledger::set_order(std::vector<std::string> stages) {
  if (order_ == stages) return;
  order_ = std::move(stages);
  save();
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
    stages[name] = {{"fingerprint", entry.fingerprint},
                    {"seconds", entry.cost.seconds},
                    {"memory", entry.cost.memory},
                    {"gpu_memory", entry.cost.gpu_memory},
                    {"outputs", entry.outputs}};
  write_json(path_, Json{{"order", order_}, {"stages", stages}});
}

bool Ledger::has(const std::string& stage, const std::string& fingerprint) const {
  const LedgerEntry* entry = find(stage);
  return entry != nullptr && entry->fingerprint == fingerprint;
}

std::optional<fs::path> Ledger::altered(const std::string& stage, const fs::path& folder) const {
  for (const auto& [name, hash] : find(stage)->outputs) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path) || content_hash(path) != hash) return path;
  }
  return std::nullopt;
}

std::vector<std::string> stage_fingerprints(const std::vector<Stage>& stages) {
  std::map<fs::path, std::string> hashes;
  std::map<std::string, std::string> known;
  std::vector<std::string> fingerprints;
  for (const Stage& stage : stages) {
    Fingerprint fingerprint;
    fingerprint.add(stage_format).add(stage.name);
    if (stage.format > 0) fingerprint.add(stage.format);
    for (const std::string& setting : stage.settings) fingerprint.add(setting);
    for (const fs::path& input : stage.files)
      for (const fs::path& file : files_of(input)) {
        std::string& hash = hashes[file];
        if (hash.empty()) hash = content_hash(file);
        fingerprint.add(fs::relative(file, input).string()).add(hash);
      }
    for (const std::string& earlier : stage.after) fingerprint.add(earlier).add(known.at(earlier));
    fingerprints.push_back(known[stage.name] = fingerprint.hex());
  }
  return fingerprints;
}

std::vector<std::string> with_dependents(const std::vector<Stage>& stages,
                                         const std::string& stage) {
  std::vector<std::string> names{stage};
  for (const Stage& later : stages)
    if (std::ranges::any_of(later.after, [&](const std::string& earlier) {
          return std::ranges::find(names, earlier) != names.end();
        }))
      names.push_back(later.name);
  return names;
}

void check_pipeline(const Pipeline& pipeline, const PipelineRange& range) {
  std::vector<std::string> names;
  for (const Stage& stage : pipeline.stages()) names.push_back(stage.name);
  for (const auto& [option, name] :
       {std::pair{"from", range.from}, {"to", range.to}, {"force", range.force}})
    if (!name.empty() && std::ranges::find(names, name) == names.end())
      throw usage_error("--pipeline.{} {}: no such stage; the stages are {}", option, name,
                        fmt::join(names, ", "));
  for (const auto& [name, alone] : range.alone)
    if (std::ranges::find(names, name) == names.end())
      throw usage_error("[stage.{}]: no such stage; the stages are {}", name,
                        fmt::join(names, ", "));
  for (const Stage& stage : pipeline.stages())
    if (stage.check) stage.check();
}

namespace {

bool runs_alone(const PipelineRange& range, const std::string& stage, const Communicator& comm) {
  const auto chosen = range.alone.find(stage);
  return comm.size() > 1 && chosen != range.alone.end() && chosen->second;
}

// On rank 0, with a communicator of its own, however long it takes.
void run_alone(const Stage& stage, const StageContext& c, const fs::path& folder) {
  const auto asked_here = [&] { return c.stop_requested && c.stop_requested(); };
  std::atomic<bool> asked = false;
  const auto work = [&] {
    if (!c.comm.is_root()) return;
    const auto single = make_single_communicator();
    stage.run({*single, c.log, c.device, c.checkpoints, c.task,
               [&] { return asked || asked_here(); }, c.run_folder, c.name, c.export_folder},
              folder);
  };
  run_long(c.comm, work, asked_here, &asked);
}

// One stage, from empty temporary folder to ledger entry.
StageCost run_stage(const Pipeline& pipeline, std::size_t number, const StageContext& context,
                    const PipelineRange& range, Ledger& ledger) {
  const Stage& stage = pipeline.stages()[number];
  Communicator& comm = context.comm;
  const fs::path folder = pipeline.folder(number), partial = folder.string() + ".partial";
  on_root(comm, [&] {
    for (const std::string& name : with_dependents(pipeline.stages(), stage.name))
      ledger.forget(name);
    for (const fs::path& old : folders_of(folder.parent_path(), stage.name)) fs::remove_all(old);
    fs::remove_all(partial);
    create_folder(partial);
  });
  const int gpu = context.device.index;
  std::optional<GpuLog> watch;
  run_collectively(comm, [&] {
    reset_peak_memory();
    if (!context.device.cuda) return;
    reset_device_memory_peak(gpu);
    watch.emplace(
        context.run_folder / "gpu" / stage.name / fmt::format("rank-{:05d}.csv", comm.rank()),
        GpuLog::Source{query_gpu(gpu).bus, [gpu] { return device_memory(gpu).used; }}, context.log);
  });
  const auto start = std::chrono::steady_clock::now();
  if (runs_alone(range, stage.name, comm))
    run_alone(stage, context, partial);
  else
    stage.run(context, partial);
  comm.barrier();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  watch.reset();
  const StageCost cost{
      seconds.count(), comm.all_reduce_value(peak_memory(), Reduce::max),
      comm.all_reduce_value(context.device.cuda ? device_memory(gpu).peak : std::int64_t{0},
                            Reduce::max)};
  std::map<std::string, std::string> hashes;
  run_long(comm, [&] {
    if (comm.is_root()) hashes = output_hashes(partial, stage.outputs);
  });
  on_root(comm, [&] {
    rename_synced(partial, folder);
    ledger.finish(stage.name, {context.task.fingerprint, cost, std::move(hashes)});
    std::error_code ignored;  // they do no harm
    fs::remove_all(context.checkpoints, ignored);
    // When it is empty: those of other options stay for them.
    fs::remove(context.checkpoints.parent_path(), ignored);
    fs::remove(context.checkpoints.parent_path().parent_path(), ignored);
  });
  return cost;
}

// The fingerprints, once the run folder is as this pipeline has it. On the root.
std::vector<std::string> open_run(const Pipeline& pipeline, Ledger& ledger) {
  create_folder(pipeline.run_folder());
  std::vector<std::string> order;
  for (const Stage& stage : pipeline.stages()) order.push_back(stage.name);
  ledger.set_order(std::move(order));
  settle_folders(pipeline, ledger);
  return stage_fingerprints(pipeline.stages());
}

// What the checkpoints of a stage belong to: the settings of it and of all before it.
CheckpointTask checkpoint_task(const std::vector<Stage>& stages, std::size_t number,
                               const std::string& fingerprint) {
  std::vector<std::string> settings;
  for (std::size_t i = 0; i <= number; ++i)
    for (const std::string& setting : stages[i].settings)
      if (std::ranges::find(settings, setting) == settings.end()) settings.push_back(setting);
  return {fingerprint, settings};
}

fs::path checkpoint_folder(const Pipeline& pipeline, std::size_t number,
                           const std::string& fingerprint) {
  return pipeline.run_folder() / "checkpoints" / pipeline.stages()[number].name /
         fingerprint.substr(0, 16);
}

}  // namespace

std::vector<StageTime> run_stages(const Pipeline& pipeline, const PipelineRange& range,
                                  Communicator& comm, const Log& log, const DeviceChoice& device,
                                  const std::function<bool()>& stop_requested) {
  const std::vector<Stage>& stages = pipeline.stages();
  const std::size_t first = position(stages, range.from, 0),
                    last = position(stages, range.to, stages.size() - 1);
  Ledger ledger(pipeline.run_folder());
  std::vector<std::string> fingerprints(stages.size());
  on_root(comm, [&] { fingerprints = open_run(pipeline, ledger); });
  std::vector<StageTime> times;
  for (std::size_t i = 0; i <= last; ++i) {
    const Stage& stage = stages[i];
    std::int32_t skip = 0;
    on_root(comm, [&] {
      bool holds = ledger.has(stage.name, fingerprints[i]);
      if (holds)
        if (const auto file = ledger.altered(stage.name, pipeline.folder(i))) {
          log->warn("{}: not as the stage {} left it; the stage runs again", file->string(),
                    stage.name);
          holds = false;
        }
      if (i < first && !holds)
        throw usage_error(
            "--pipeline.from {}: the earlier stage {} is not finished with these options; start "
            "from it",
            range.from, stage.name);
      skip = holds && stage.name != range.force ? 1 : 0;
    });
    comm.broadcast(&skip, 1, DataType::int32, 0);
    if (skip != 0) {
      const LedgerEntry* entry = ledger.find(stage.name);
      times.push_back({stage.name, entry ? entry->cost : StageCost{}, true});
      if (comm.is_root())
        log->info("stage {}/{} {}: finished before, skipped", i + 1, stages.size(), stage.name);
      continue;
    }
    const std::string fingerprint = comm.broadcast_string(fingerprints[i]);
    const StageContext context{comm,
                               log,
                               device,
                               checkpoint_folder(pipeline, i, fingerprint),
                               checkpoint_task(stages, i, fingerprint),
                               stop_requested,
                               pipeline.run_folder(),
                               stage.name};
    context.leave_together_if_asked();
    if (comm.is_root())
      log->info("stage {}/{} {}{}", i + 1, stages.size(), stage.name,
                runs_alone(range, stage.name, comm)
                    ? " (rank 0 alone: --stage." + stage.name + ".gpus 1)"
                    : "");
    times.push_back({stage.name, run_stage(pipeline, i, context, range, ledger), false});
    if (comm.is_root())
      log->info(
          "stage {}/{} {} took {}; peak memory {} MiB{}{}", i + 1, stages.size(), stage.name,
          format_duration(times.back().cost.seconds), times.back().cost.memory >> 20,
          device.cuda ? fmt::format(", of the GPU {} MiB", times.back().cost.gpu_memory >> 20) : "",
          stage.reference_time.empty()
              ? ""
              : fmt::format(" (the guide of the Python set-up states {})", stage.reference_time));
  }
  return times;
}

void export_model(const Pipeline& pipeline, const fs::path& folder, Communicator& comm,
                  const Log& log, const DeviceChoice& device) {
  const std::vector<Stage>& stages = pipeline.stages();
  const fs::path partial = folder.string() + ".partial";
  std::int64_t next = 0;
  std::string fingerprint;
  on_root(comm, [&] {
    if (fs::exists(folder))
      throw usage_error("--run.export {}: it is there already; name a new folder", folder.string());
    Ledger ledger(pipeline.run_folder());
    const std::vector<std::string> fingerprints = open_run(pipeline, ledger);
    while (next < std::ssize(stages) && ledger.has(stages[static_cast<std::size_t>(next)].name,
                                                   fingerprints[static_cast<std::size_t>(next)]))
      ++next;
    if (next == std::ssize(stages))
      throw usage_error("--run.export: the run is finished; its model is {}",
                        (pipeline.run_folder() / "model").string());
    const Stage& stage = stages[static_cast<std::size_t>(next)];
    if (!stage.exports)
      throw usage_error("--run.export: the next stage of {} is {}, which has no model to export",
                        pipeline.run_folder().string(), stage.name);
    fingerprint = fingerprints[static_cast<std::size_t>(next)];
    fs::remove_all(partial);
  });
  comm.broadcast(&next, 1, DataType::int64, 0);
  fingerprint = comm.broadcast_string(fingerprint);
  const auto number = static_cast<std::size_t>(next);
  stages[number].run({comm,
                      log,
                      device,
                      checkpoint_folder(pipeline, number, fingerprint),
                      checkpoint_task(stages, number, fingerprint),
                      {},
                      pipeline.run_folder(),
                      stages[number].name,
                      partial},
                     partial);
  on_root(comm, [&] {
    rename_synced(partial, folder);
    log->info("the model of that checkpoint: {}", folder.string());
  });
}

}  // namespace gpuhpc
