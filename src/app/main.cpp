// From the command line to an exit code. Without another command the labelling job runs:
// run_command() in commands/run.cpp. docs/architecture.md names the files that lead from here to
// the optimizer's step (three more) and to a prediction.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/system_error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "invocation.hpp"

namespace gpuhpc {
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

// Without a launcher the ranks are threads of this process, each with its share of what the user
// gave the process.
void run_as_threads(int ranks, int gpus, const Options& options,
                    const std::function<void(Communicator&, const DeviceOptions&)>& body) {
  if (!hdf5_is_threadsafe())
    throw configuration_error(
        "--parallel.replicas {}: the HDF5 library of this program may not be called from several "
        "threads; start the ranks with mpirun -np {} and --parallel.strategy ddp, or give "
        "--parallel.replicas 1",
        ranks, ranks);
  DeviceOptions device = options.device;
  if (device.threads > 0) device.threads = std::max<std::int64_t>(1, device.threads / ranks);
  if (gpus == 0) device.memory_limit *= ranks;
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

// Smaller than any where a rank has none.
std::int64_t memory_of_smallest_gpu(Communicator& world, const DeviceOptions& options,
                                    const std::vector<int>& gpus) {
  std::int64_t memory = gpus.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
  run_collectively(world, [&] {
    for (const int gpu : gpus) memory = std::min(memory, query_gpu(gpu).memory);
    if (options.memory_limit > 0) memory = std::min(memory, options.memory_limit);
  });
  return world.all_reduce_value(memory, Reduce::min);
}

// The micro-batch that nobody has given follows the GPUs. A job's preset is not overruled.
void choose_micro_batch(Communicator& world, const Command& command, const std::vector<int>& gpus,
                        config::OptionSet& set, const Options& options) {
  const std::int64_t memory = memory_of_smallest_gpu(world, options.device, gpus),
                     usual = usual_micro_batch(memory),
                     &now = options.shared.training.train.micro_batch;
  if (set.given("train.micro-batch") || now != TrainOptions{}.micro_batch || usual == now) return;
  set.set_default("train.micro-batch", std::to_string(usual));
  if (world.is_root() && command.leaves_in_order)
    make_console_log(0)->info(
        "--train.micro-batch {}, by the {} GiB of the smallest GPU; `auto` tries what fits", usual,
        memory >> 30);
}

void execute(Communicator& world, const std::vector<std::string>& arguments) {
  config::OptionSet set;
  Options options;
  Invocation invocation;
  int replicas = 1;
  std::vector<int> usable;                      // GPUs
  std::vector<std::vector<std::string>> steps;  // of --train.on-out-of-memory
  std::vector<std::string> missing;  // models and inputs of a profile that is only looked at
  declare_options(set, options);
  run_collectively(world, [&] {
    invocation = read_invocation(arguments);
    if (invocation.help || invocation.version) return;
    set.parse(invocation.config, invocation.options, invocation.dry_run ? &missing : nullptr);
    const Command& command = find_command(invocation.command);
    refuse_unread(command, set.given_on_command_line());
    for (const auto& [name, value] : command.preset(options)) set.set_default(name, value);
    steps = memory_steps(options.shared.training.train.on_out_of_memory);
    if (options.device.isa != "auto") kernels::limit_isa(kernels::parse_isa(options.device.isa));
    if (invocation.dry_run) return;
    usable = usable_gpus(options.device, query_cuda_devices());
    prepare_process(options.device);
    replicas = options.shared.training.parallel.replica_count(world.size(),
                                                              static_cast<int>(usable.size()));
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
  const int gpus = static_cast<int>(usable.size());
  choose_micro_batch(world, command, usable, set, options);
  std::optional<StopSignals> signals;  // of the process
  if (command.leaves_in_order) signals.emplace();
  if (world.size() == 1 && gpus > 1)
    make_console_log(0)->info("{} of {} usable GPUs (--parallel.replicas, --device.ids)", replicas,
                              gpus);
  const auto rank = [&](Communicator& comm, const DeviceOptions& device) {
    run_rank(comm, command, set, options, device,
             fmt::format("gpuhpc {}", fmt::join(arguments, " ")));
  };
  // A training that does not fit memory goes on with less, where the user said with what.
  for (std::size_t next = 0;; ++next) {
    const std::optional<Error> error = run_catching([&] {
      replicas == 1 ? rank(world, options.device) : run_as_threads(replicas, gpus, options, rank);
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
void check_working_folder() {
  char folder[4096];
  if (::getcwd(folder, sizeof folder) != nullptr || errno != ENOENT) return;
  constexpr std::string_view sentence =
      "gpuhpc: the working folder of this shell was removed; cd to one that is there\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, sentence.data(), sentence.size());
  ::_exit(static_cast<int>(ExitCode::configuration));
}
void before_libraries(int, char**, char**) {
  hold_stop_signals();
  check_working_folder();
}
[[gnu::used, gnu::section(".preinit_array")]] void (*const run_first)(int, char**,
                                                                      char**) = before_libraries;

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  gpuhpc::hold_standard_streams();
  gpuhpc::end_in_words();
  try {
    gpuhpc::check_launch(std::getenv);
    const gpuhpc::MpiSession mpi;
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const int code = gpuhpc::run_application(*gpuhpc::MpiSession::world(), arguments);
    return gpuhpc::MpiSession::finish(code);
  } catch (const gpuhpc::Error& error) {
    return gpuhpc::report_launch(error);
  } catch (const std::system_error& error) {  // the thread that watches MPI's start
    return gpuhpc::report_launch(gpuhpc::error_of(error));
  }
}
