// From the command line to an exit code. Without another command the stages of a pipeline run one
// after the other: run_command(), below. A reader who goes on to the optimizer step opens three
// files: pipelines/label/teleclass/pipeline.cpp, which lists the stages;
// pipelines/label/teleclass/variants/student_training.cpp, which hands model and task of the
// training stage to a Trainer; and train/trainer.cpp with its loop and, on one screen,
// Trainer::step().
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <thread>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/run_report.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/launch.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/io/lock.hpp"
#include "gpuhpc/pipelines/label/evaluate.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "invocation.hpp"
#include "publish.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

// The staged pipeline, resumed in an existing run folder; then metrics, when there is gold, and the
// report.
void run_command(CommandContext& c) {
  const Options& o = c.options;
  const fs::path run = o.run_dir;
  InputLayout layout;
  std::optional<FolderLock> lock;
  Taxonomy taxonomy;
  together(c.comm, [&] {
    o.teleclass.train.check(c.set);
    o.teleclass.profile.range();
    layout = resolve_layout(o.teleclass.input.dir);
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
  });
  std::vector<std::string> warnings;
  if (layout.test_serves_as_train)
    warnings.push_back("No training corpus was given: the test texts served, unlabelled.");
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
    c.log->info("{} rank{}, {}; {}", c.comm.size(), c.comm.size() == 1 ? "" : "s",
                describe(c.device), describe(layout));

  const std::vector<Stage> stages = pipeline_stages(o, layout);
  const auto times = run_stages(stages, c.set, {o.from, o.to, o.force}, run, c.comm, c.log,
                                c.device, StopSignals::requested);
  if (times.size() < stages.size()) return;
  on_root(c.comm, [&] {
    publish(stages, run);
    write_run_facts(c, run, warnings, times);
    if (gold.empty() && !times.back().skipped)  // of earlier predictions
      for (const char* name : {"metrics.json", "evaluation.json"}) fs::remove(run / name);
  });

  const fs::path predictions =
      o.eval.predictions.empty() ? run / "predictions.jsonl" : fs::path(o.eval.predictions);
  if (!gold.empty())
    evaluate_predictions(taxonomy, predictions, gold, o.eval, run, c.comm, c.device.threads);
  on_root(c.comm, [&] {
    const ReportModel report = make_run_report(run);
    write_report(run / "report.html", report);
    fmt::print("{}\n", format_stages(report.stages));
    if (report.evaluation) fmt::print("{}\n", format_metrics(*report.evaluation));
    fmt::print("predictions: {}\nreport:      {}\n", (run / "predictions.jsonl").string(),
               (run / "report.html").string());
  });
}

namespace {

// One rank's whole work, once the ranks and their options are known.
void run_rank(Communicator& comm, const Command& command, const config::OptionSet& set,
              const Options& options, const DeviceOptions& device_options, bool dry_run,
              const std::string& command_line) {
  const DeviceChoice device = choose_device_together(comm, device_options);
  if (dry_run) {
    if (comm.is_root()) fmt::print("{}", set.ini());
    return;
  }
  together(comm, [&] { apply(device_options, device); });
  CommandContext context{comm, make_console_log(comm.rank()), set, options, device, command_line};
  command.run(context);
}

// --parallel.strategy dp: the ranks are threads of this process, each with its share of what the
// user gave the process.
void run_as_threads(int ranks, const Options& options,
                    const std::function<void(Communicator&, const DeviceOptions&)>& body) {
  if (!hdf5_is_threadsafe())
    throw configuration_error(
        "--parallel.replicas {}: the HDF5 library of this program may not be called from several "
        "threads; start the ranks with mpirun -np {} and --parallel.strategy ddp",
        ranks, ranks);
  DeviceOptions device = options.device;
  if (device.threads > 0) device.threads = std::max<std::int64_t>(1, device.threads / ranks);
  if (device.kind == "cpu" || query_cuda_devices() == 0) device.memory_limit *= ranks;
  limit_host_memory(0);  // put in place while there is one thread
  run_thread_ranks(ranks, options.teleclass.parallel, [&](Communicator& comm) {
    try {
      body(comm, device);
    } catch (const Error& error) {
      if (error.on_all_ranks()) throw;
      throw Error(error.code(),
                  fmt::format("rank {} on {}: {}", comm.rank(), comm.host(), error.what()), true);
    }
  });
}

void execute(Communicator& world, const std::vector<std::string>& arguments) {
  config::OptionSet set;
  Options options;
  Invocation invocation;
  int replicas = 1;
  declare_options(set, options);
  together(world, [&] {
    invocation = read_invocation(arguments);
    if (invocation.help || invocation.version) return;
    find_command(invocation.command);
    set.parse(invocation.config, invocation.options);
    apply_preset(set, options);
    replicas = options.teleclass.parallel.replica_count(
        world.size(), options.device.kind == "cpu" ? 0 : query_cuda_devices());
  });
  world.configure(options.teleclass.parallel);
  if (invocation.version) {
    if (world.is_root()) fmt::print("gpuhpc {}\n", GPUHPC_VERSION);
    return;
  }
  if (invocation.options_table || invocation.help) {
    if (world.is_root()) invocation.help ? print_help(set) : fmt::print("{}", set.markdown());
    return;
  }
  const Command& command = find_command(invocation.command);
  std::optional<StopSignals> signals;  // of the process
  if (command.run == run_command && !invocation.dry_run) signals.emplace();
  const auto rank = [&](Communicator& comm, const DeviceOptions& device) {
    run_rank(comm, command, set, options, device, invocation.dry_run,
             fmt::format("gpuhpc {}", fmt::join(arguments, " ")));
  };
  if (replicas == 1)
    rank(world, options.device);
  else
    run_as_threads(replicas, options, rank);
}

// A rank that fails alone ends the others.
int report_failure(Communicator& comm, const Error& error) {
  const int code = static_cast<int>(error.code());
  const bool alone = comm.size() > 1 && !error.on_all_ranks();
  if (alone || comm.is_root())
    fmt::print(stderr, "gpuhpc: {}{}\n",
               alone ? fmt::format("rank {} on {}: ", comm.rank(), comm.host()) : "", error.what());
  std::fflush(stderr);
  if (alone) MpiSession::abort(code);
  return code;
}

int run_application(Communicator& comm, const std::vector<std::string>& arguments) {
  try {
    execute(comm, arguments);
    return 0;
  } catch (const Error& e) {
    return report_failure(comm, e);
  } catch (const c10::OutOfMemoryError& e) {
    return report_failure(comm,
                          Error(ExitCode::out_of_memory,
                                fmt::format("out of memory: {}", e.what_without_backtrace())));
  } catch (const std::bad_alloc&) {
    return report_failure(
        comm, Error(ExitCode::out_of_memory,
                    "out of host memory; start fewer ranks on a host or use more hosts"));
  } catch (const std::exception& e) {
    return report_failure(comm, Error(ExitCode::internal, e.what()));
  }
}

// Before MPI starts: with a wrong launch MPI may end the process in its own words.
int report_launch(const Error& error) {
  const char* task = std::getenv("SLURM_PROCID");
  if (task == nullptr || std::strcmp(task, "0") == 0)
    fmt::print(stderr, "gpuhpc: {}\n", error.what());
  else
    std::this_thread::sleep_for(
        std::chrono::seconds(1));  // srun may end task 0 as soon as another one leaves
  return static_cast<int>(error.code());
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  try {
    gpuhpc::check_launch(std::getenv);
  } catch (const gpuhpc::Error& error) {
    return gpuhpc::report_launch(error);
  }
  gpuhpc::hold_stop_signals();
  gpuhpc::MpiSession mpi(&argc, &argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto world = gpuhpc::MpiSession::world();
  return gpuhpc::run_application(*world, arguments);
}
