#include "gpuhpc/app/run_job.hpp"

#include <algorithm>
#include <optional>

#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/run_folder.hpp"
#include "gpuhpc/app/run_report.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/report/page.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// What the user looks for appears at the top of the run folder, from the last stage that leaves it.
const char* const published[] = {"predictions.jsonl", "submission.csv", "metrics.jsonl",
                                 "ranks.jsonl",       "metrics.json",   "evaluation.tsv",
                                 "samples.json",      "mined.jsonl",    "model"};

// Of a user's own files in a folder that is no run's yet nothing is written over.
void check_run_folder(const fs::path& run) {
  if (fs::exists(run / "ledger.json")) return;
  for (const char* name : published)
    if (fs::exists(run / name))
      throw usage_error(
          "--run.dir {}: `{}` is there already and of no run (there is no ledger.json), and a run "
          "would write over it; give a new folder",
          run.string(), name);
  check_report(run / "report.html", "run.dir");
}

void publish(const Pipeline& pipeline) {
  const fs::path& run = pipeline.run_folder();
  fs::remove_all(run / "model");
  for (const std::string name : published) {
    fs::path source;
    for (std::size_t i = 0; i < pipeline.stages().size(); ++i)
      if (std::ranges::find(pipeline.stages()[i].outputs, name) !=
          pipeline.stages()[i].outputs.end())
        source = pipeline.folder(i) / name;
    if (source.empty() && name != "metrics.json") fs::remove(run / name);  // of other stages
    if (fs::is_regular_file(source)) link_file(source, run / name);
    if (!source.empty() && fs::is_directory(source))
      for (const auto& entry : fs::recursive_directory_iterator(source))
        if (entry.is_regular_file())
          link_file(entry.path(), run / name / fs::relative(entry.path(), source));
  }
}

// A TSV file whose first line names its columns, for the terminal.
std::string table_of(const fs::path& tsv) {
  const auto rows = read_table(tsv);
  return rows.size() < 2 ? "" : format_table(rows.front(), {rows.begin() + 1, rows.end()});
}

}  // namespace

void run_job(CommandContext& c, Job job) {
  const PipelineOptions& o = c.options.pipeline;
  PipelineRange range{o.from, job.to.empty() ? o.to : job.to, o.force};
  for (const auto& [name, stage] : c.options.stages) range.alone[name] = stage.gpus == "1";
  const fs::path run = job.pipeline.run_folder();
  fs::path exported = c.options.run.export_folder;
  if (!exported.empty() && !exported.has_filename()) exported = exported.parent_path();  // out/
  std::optional<FolderLock> lock;
  on_root(c.comm, [&] {
    check_pipeline(job.pipeline, range);
    if (!exported.empty() && !fs::exists(run / "ledger.json"))
      throw usage_error("--run.export: {} holds no run; name its folder with --run.dir",
                        run.string());
    check_run_folder(run);
    create_folder(run);
    lock.emplace(run);
    if (!exported.empty()) return;
    write_text_file(run / "config.ini", c.set.ini());
    write_run_facts(c, job, {});
  });
  run_collectively(c.comm, [&] { add_file_log(c.log, run / "log", c.comm.rank()); });
  if (c.comm.is_root())
    c.log->info("{} rank{}, {}; {}", c.comm.size(), c.comm.size() == 1 ? "" : "s",
                describe(c.device), job.description);
  if (c.comm.is_root()) {
    for (const std::string& warning : job.warnings) c.log->warn("{}", warning);
    if (const std::string advice = how_to_stop(std::getenv); !advice.empty() && c.comm.size() > 1)
      c.log->info("{}", advice);
  }
  if (!exported.empty()) return export_model(job.pipeline, exported, c.comm, c.log, c.device);

  const auto times =
      run_stages(job.pipeline, range, c.comm, c.log, c.device, StopSignals::requested);
  if (times.size() < job.pipeline.stages().size()) return;
  on_root(c.comm, [&] {
    if (!times.back().skipped)  // of earlier predictions
      for (const char* name : {"metrics.json", "evaluation.json"}) fs::remove(run / name);
    publish(job.pipeline);
    if (job.evaluate)
      for (std::string& warning : job.evaluate()) {
        c.log->warn("{}", warning);
        job.warnings.push_back(std::move(warning));
      }
    write_run_facts(c, job, times);
    write_report(run / "report.html", make_run_report(run));
    fmt::print("{}\n", format_stages(RunFolder(run).stages()));
    if (!job.pipeline.reference_total.empty())
      fmt::print("the guide of the Python set-up states {}\n\n", job.pipeline.reference_total);
    if (const fs::path file = run / "evaluation.json"; fs::exists(file))
      fmt::print("{}\n", format_metrics(read_evaluation(file).evaluation));
    if (const fs::path file = run / "evaluation.tsv"; fs::exists(file))
      fmt::print("{}\n", table_of(file));
    for (const auto& [what, file] : {std::pair{"predictions: ", run / "predictions.jsonl"},
                                     std::pair{"rows:        ", run / "mined.jsonl"},
                                     std::pair{"report:      ", run / "report.html"}})
      if (fs::exists(file)) fmt::print("{}{}\n", what, file.string());
  });
}

}  // namespace gpuhpc
