#include <algorithm>
#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/run_report.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lock.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "gpuhpc/stages/classify/evaluate.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// A second name for a finished file; a copy where the file system has no links.
void link_file(const fs::path& from, const fs::path& to) {
  create_folder(to.parent_path());
  fs::remove(to);
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) gpuhpc::copy_file(from, to);
}

// Where the last stage that leaves such a file has it.
fs::path output_of(const std::vector<Stage>& stages, const fs::path& run, const std::string& name) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (std::ranges::find(stages[i].outputs, name) != stages[i].outputs.end()) last = i;
  return stage_folder(run, stages, last) / name;
}

// What the user looks for appears at the top of the run folder.
void publish(const std::vector<Stage>& stages, const fs::path& run) {
  for (const char* name : {"predictions.jsonl", "submission.csv", "metrics.jsonl", "ranks.jsonl"})
    if (const fs::path file = output_of(stages, run, name); fs::exists(file)) link_file(file, run / name);  // older runs have no ranks.jsonl
  fs::remove_all(run / "model");
  const fs::path model = output_of(stages, run, "model");
  for (const auto& entry : fs::recursive_directory_iterator(model))
    if (entry.is_regular_file()) link_file(entry.path(), run / "model" / fs::relative(entry.path(), model));
}

}  // namespace

void run_command(CommandContext& c) {
  const StopSignals signals;
  const Options& o = c.options;
  const fs::path run = o.run_dir;
  InputLayout layout;
  std::optional<FolderLock> lock;
  Taxonomy taxonomy;
  together(c.comm, [&] {
    const int replicas = o.teleclass.parallel.replica_count(c.comm.size(), c.device.cuda ? query_cuda_devices() : 0);
    for (int gpu = 1; c.device.cuda && o.device.memory_limit > 0 && gpu < replicas; ++gpu) limit_cuda_memory(o.device.memory_limit, gpu);
    o.teleclass.train.check();
    o.teleclass.profile.range();
    layout = resolve_layout(o.teleclass.input.dir);
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
  });
  std::vector<std::string> warnings;
  if (layout.test_serves_as_train) warnings.push_back("No training corpus was given: the test texts served, unlabelled.");
  const fs::path gold = o.eval.gold.empty() ? layout.test_gold : fs::path(o.eval.gold);
  if (!gold.empty()) check_gold(taxonomy, gold, c.comm);
  on_root(c.comm, [&] {
    create_folder(run);
    lock.emplace(run);
    write_text_file(run / "config.ini", c.set.ini());
    write_run_facts(c, run, warnings, {});
  });
  together(c.comm, [&] { add_file_log(c.log, run / "log", c.comm.rank()); });
  if (c.comm.is_root())
    c.log->info("{} rank{}, {}; {}", c.comm.size(), c.comm.size() == 1 ? "" : "s", describe(c.device), describe(layout));

  const std::vector<Stage> stages = pipeline_stages(o, layout);
  const auto times = run_stages(stages, c.set, {o.from, o.to, o.force}, run, c.comm, c.log, c.device, StopSignals::requested);
  if (times.size() < stages.size()) return;
  on_root(c.comm, [&] {
    publish(stages, run);
    write_run_facts(c, run, warnings, times);
    if (gold.empty() && !times.back().skipped)  // of earlier predictions
      for (const char* name : {"metrics.json", "evaluation.json"}) fs::remove(run / name);
  });

  const fs::path predictions = o.eval.predictions.empty() ? run / "predictions.jsonl" : fs::path(o.eval.predictions);
  if (!gold.empty()) evaluate_predictions(taxonomy, predictions, gold, o.eval, run, c.comm, c.device.threads);
  on_root(c.comm, [&] {
    const ReportModel report = make_run_report(run);
    write_report(run / "report.html", report);
    fmt::print("{}\n", format_stages(report.stages));
    if (report.evaluation) fmt::print("{}\n", format_metrics(*report.evaluation));
    fmt::print("predictions: {}\nreport:      {}\n", (run / "predictions.jsonl").string(), (run / "report.html").string());
  });
}

}  // namespace gpuhpc
