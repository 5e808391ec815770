// From the command line to an exit code. Without another command the stages of a pipeline run one
// after the other: run_command(), below. A reader who goes on to the optimizer step opens three
// files: pipelines/label/teleclass/pipeline.cpp, which lists the stages;
// pipelines/label/teleclass/variants/student_training.cpp, which hands model, documents and loss of
// the training stage to a Trainer; and train/trainer.cpp with its loop and, on one screen,
// Trainer::step().
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "gpuhpc/pipelines/label/evaluate.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"
#include "invocation.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

// The labelling job: its inputs looked through, its pipeline run, its predictions measured when
// there is gold.
void run_command(CommandContext& c) {
  const Options& o = c.options;
  const LabelInputs inputs =
      find_inputs(o.shared.input, o.shared.corpus, o.pipeline.to.empty(), c.comm);
  Job job{Pipeline(o.run.dir), o.shared.input.dir, inputs.description, inputs.warnings, {}};
  const fs::path gold = o.eval.gold.empty() ? inputs.gold : fs::path(o.eval.gold);
  Taxonomy taxonomy;
  together(c.comm, [&] {
    o.shared.training.train.check();
    o.shared.training.profile.range();
    const auto pipeline =
        o.pipeline.method == "taxoclass" ? taxoclass_pipeline : teleclass_pipeline;
    job.pipeline = pipeline(o.shared, o.label, inputs, o.run.dir);
    taxonomy = inputs.taxonomy.load();
  });
  if (!gold.empty()) {
    check_gold(taxonomy, gold, c.comm);
    job.evaluate = [&] {
      const fs::path predictions = o.eval.predictions.empty()
                                       ? fs::path(o.run.dir) / "predictions.jsonl"
                                       : fs::path(o.eval.predictions);
      evaluate_predictions(taxonomy, predictions, gold, o.eval, o.run.dir, c.comm,
                           c.device.threads);
    };
  }
  run_job(c, job);
}

namespace {

void execute(Communicator& comm, const std::vector<std::string>& arguments) {
  config::OptionSet set;
  Options options;
  Invocation invocation;
  declare_options(set, options);
  together(comm, [&] {
    invocation = read_invocation(arguments);
    if (invocation.help || invocation.version) return;
    find_command(invocation.command);
    set.parse(invocation.config, invocation.options);
    apply_preset(set, options);
  });
  comm.configure(options.shared.training.parallel);
  if (invocation.version) {
    if (comm.is_root()) fmt::print("gpuhpc {}\n", GPUHPC_VERSION);
    return;
  }
  if (invocation.options_table || invocation.help) {
    if (comm.is_root())
      invocation.help ? print_help(set, invocation.help_words) : fmt::print("{}", set.markdown());
    return;
  }
  const DeviceChoice device = choose_device_together(comm, options.device);
  together(comm, [&] {
    if (options.device.isa != "auto") kernels::limit_isa(kernels::parse_isa(options.device.isa));
  });
  if (invocation.dry_run) {
    if (comm.is_root()) fmt::print("{}", set.ini());
    return;
  }
  together(comm, [&] { apply(options.device, device); });
  CommandContext context{comm,   make_console_log(comm.rank()),
                         set,    options,
                         device, fmt::format("gpuhpc {}", fmt::join(arguments, " "))};
  find_command(invocation.command).run(context);
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
                    "out of host memory; start fewer ranks per host or use more hosts"));
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
