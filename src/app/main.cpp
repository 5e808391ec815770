// From the command line to an exit code. Without another command the labelling job runs:
// run_command(), below. docs/architecture.md names the files that lead from here to the optimizer's
// step (three more) and to a prediction.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/system_error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "gpuhpc/pipelines/label/evaluate.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "invocation.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

// The labelling job: its inputs looked through, its pipeline run, its predictions measured when
// there is gold.
void run_command(CommandContext& c) {
  const Options& o = c.options;
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  const LabelInputs inputs =
      find_inputs(o.shared.input, o.shared.corpus, o.pipeline.to.empty(), c.comm);
  Job job{Pipeline(o.run.dir), o.shared.input.dir, inputs.description, inputs.warnings, {}};
  const fs::path gold = o.eval.gold.empty() ? inputs.gold : fs::path(o.eval.gold);
  Taxonomy taxonomy;
  std::vector<std::string> given;  // documents that are measured, but for their labels
  run_collectively(c.comm, [&] {
    if (!o.eval.predictions.empty())
      throw usage_error("--eval.predictions is for evaluate; run measures its own predictions");
    o.shared.training.train.check(c.set);
    o.shared.training.profile.range();
    const auto pipeline =
        o.pipeline.method == "taxoclass" ? taxoclass_pipeline : teleclass_pipeline;
    job.pipeline = pipeline(o.shared, o.label, inputs, o.run.dir);
    taxonomy = inputs.taxonomy.load();
    if (inputs.test.is_test && !inputs.labels.path.empty())
      given = read_given_labels(inputs.labels.path, taxonomy).ids;
  });
  if (!gold.empty()) {
    check_gold(taxonomy, gold, c.comm);
    job.evaluate = [&] {
      const Measured measured =
          measure_predictions(taxonomy, fs::path(o.run.dir) / "predictions.jsonl", gold, o.eval,
                              c.device.threads, given);
      write_measures(o.run.dir, measured.details, taxonomy);
      return measured.warnings;
    };
  }
  run_job(c, job);
}

namespace {

// One rank's whole work, once the ranks and their options are known.
void run_rank(Communicator& comm, const Command& command, const config::OptionSet& set,
              const Options& options, const DeviceOptions& device_options,
              const std::string& command_line) {
  const DeviceChoice device = choose_device_together(comm, device_options);
  run_collectively(comm, [&] { apply(device_options, device); });
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
  run_thread_ranks(ranks, options.shared.training.parallel, [&](Communicator& comm) {
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
  std::vector<std::vector<std::string>> steps;  // of --train.on-out-of-memory
  std::vector<std::string> missing;  // models and inputs of a profile that is only looked at
  declare_options(set, options);
  run_collectively(world, [&] {
    invocation = read_invocation(arguments);
    if (invocation.help || invocation.version) return;
    set.parse(invocation.config, invocation.options, invocation.dry_run ? &missing : nullptr);
    for (const auto& [name, value] : find_command(invocation.command).preset(options))
      set.set_default(name, value);
    steps = memory_steps(options.shared.training.train.on_out_of_memory);
    if (options.device.isa != "auto") kernels::limit_isa(kernels::parse_isa(options.device.isa));
    if (invocation.dry_run) return;
    replicas = options.shared.training.parallel.replica_count(
        world.size(), options.device.kind == "cpu" ? 0 : query_cuda_devices());
  });
  world.configure(options.shared.training.parallel);
  if (invocation.version) {
    if (world.is_root()) fmt::print("gpuhpc {}\n", GPUHPC_VERSION);
    return;
  }
  if (invocation.options_table || invocation.help) {
    if (world.is_root())
      invocation.help ? print_help(set, invocation.help_words) : fmt::print("{}", set.markdown());
    return;
  }
  if (invocation.dry_run) {  // here, where a GPU profile needs neither its GPU nor its models
    if (!world.is_root()) return;
    for (const std::string& path : missing) fmt::print(stderr, "gpuhpc: not here: {}\n", path);
    fmt::print("{}", set.ini());
    return;
  }
  const Command& command = find_command(invocation.command);
  std::optional<StopSignals> signals;  // of the process
  if (command.leaves_in_order) signals.emplace();
  const auto rank = [&](Communicator& comm, const DeviceOptions& device) {
    run_rank(comm, command, set, options, device,
             fmt::format("gpuhpc {}", fmt::join(arguments, " ")));
  };
  // A training that does not fit memory goes on with less, where the user said with what.
  for (std::size_t next = 0;; ++next) {
    const std::optional<Error> error = run_catching([&] {
      replicas == 1 ? rank(world, options.device) : run_as_threads(replicas, options, rank);
    });
    if (!error) return;
    const bool on_all = error->on_all_ranks() || world.size() == 1;
    if (error->code() != ExitCode::out_of_memory || !on_all || next == steps.size())
      throw Error(*error);
    set.parse({}, steps[next]);
    if (world.is_root())
      make_console_log(0)->warn("{}; step {} of {} of --train.on-out-of-memory: {}", error->what(),
                                next + 1, steps.size(), fmt::join(steps[next], " "));
  }
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
  const std::optional<Error> error = run_catching([&] {
    execute(comm, arguments);
    // What was printed may still lie in a buffer: a full disk shows only now.
    if (std::fflush(stdout) != 0) throw system_error("write", "standard output", errno);
  });
  return error ? report_failure(comm, *error) : 0;
}

// A file that is opened while one of the three standard descriptors is closed would take its place,
// and what is printed would land in it. In their place: something that can neither be read nor
// written the wrong way round.
void hold_standard_streams() {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(wanted, F_GETFD) < 0)
      ::open("/dev/null", wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Before there is a communicator: with a wrong launch MPI may end the process in its own words.
int report_launch(const Error& error) {
  const char* task = std::getenv("SLURM_PROCID");
  if (task == nullptr || std::strcmp(task, "0") == 0)
    fmt::print(stderr, "gpuhpc: {}\n", error.what());
  else
    std::this_thread::sleep_for(
        std::chrono::seconds(1));  // srun may end task 0 as soon as another one leaves
  return static_cast<int>(error.code());
}

// Without a working folder libraries end the process in words of their own before main() begins.
void check_working_folder(int, char**, char**) {
  char folder[4096];
  if (::getcwd(folder, sizeof folder) != nullptr || errno != ENOENT) return;
  constexpr std::string_view sentence =
      "gpuhpc: the working folder of this shell was removed; cd to one that is there\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, sentence.data(), sentence.size());
  ::_exit(static_cast<int>(ExitCode::configuration));
}
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**,
                                                                  char**) = check_working_folder;

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  gpuhpc::hold_standard_streams();
  try {
    gpuhpc::check_launch(std::getenv);
    gpuhpc::hold_stop_signals();
    gpuhpc::MpiSession mpi(&argc, &argv);
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto world = gpuhpc::MpiSession::world();
    return gpuhpc::run_application(*world, arguments);
  } catch (const gpuhpc::Error& error) {
    return gpuhpc::report_launch(error);
  }
}
