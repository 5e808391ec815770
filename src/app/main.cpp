// From the command line to an exit code. Three files lead from here to the optimizer step: this one, which parses and calls a command (`run`
// goes through the phases that stages/teleclass/pipeline.cpp lists); stages/teleclass/variants/student_training.cpp, which gives the training
// phase its model, documents and loss; train/trainer.cpp with the loop and, on one screen, Trainer::step().
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
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/launch.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/together.hpp"

namespace gpuhpc {
namespace {

struct Invocation {
  std::string command = "run";
  std::filesystem::path config;
  bool help = false, version = false, dry_run = false, options_table = false;
  std::vector<std::string> options;
};

Invocation read_invocation(const std::vector<std::string>& arguments) {
  Invocation invocation;
  std::size_t i = 0;
  if (!arguments.empty() && !arguments[0].starts_with("-")) invocation.command = arguments[i++];
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") invocation.help = true;
    else if (word == "--version") invocation.version = true;
    else if (word == "--dry-run") invocation.dry_run = true;
    else if (word == "--markdown") invocation.options_table = true;
    else if (word.starts_with("--config=")) invocation.config = word.substr(9);
    else if (word == "--config" && i + 1 < arguments.size()) invocation.config = arguments[++i];
    else if (word == "--config") throw usage_error("--config needs a file");
    else invocation.options.push_back(word);
  }
  // Bare `gpuhpc` means the config file of this folder.
  if (arguments.empty()) {
    if (!std::filesystem::exists("gpuhpc.ini")) throw usage_error("no gpuhpc.ini in this folder; name a config with --config FILE, or see gpuhpc --help");
    invocation.config = "gpuhpc.ini";
  }
  return invocation;
}

const Command& find_command(const std::string& name) {
  std::string known;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    known += (known.empty() ? "" : ", ") + command.name;
  }
  throw usage_error("unknown command `{}`; the commands are {}", name, known);
}

void print_help(const config::OptionSet& set) {
  std::string text = "gpuhpc [COMMAND] [--config FILE] [--section.option VALUE ...] [--dry-run] [--version] [--help]\n"
                     "Labels documents from a class taxonomy alone; also under mpirun or srun.\n\nCommands:\n";
  for (const Command& command : commands()) text += fmt::format("  {:10} {}\n", command.name, command.about);
  fmt::print("{}{}", text, set.help());
}

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
  comm.configure(options.teleclass.parallel);
  if (invocation.version) {
    if (comm.is_root()) fmt::print("gpuhpc {}\n", GPUHPC_VERSION);
    return;
  }
  if (invocation.options_table || invocation.help) {
    if (comm.is_root()) invocation.help ? print_help(set) : fmt::print("{}", set.markdown());
    return;
  }
  const DeviceChoice device = choose_device_together(comm, options.device);
  if (invocation.dry_run) {
    if (comm.is_root()) fmt::print("{}", set.ini());
    return;
  }
  together(comm, [&] { apply(options.device, device); });
  CommandContext context{comm, make_console_log(comm.rank()), set, options, device, fmt::format("gpuhpc {}", fmt::join(arguments, " "))};
  find_command(invocation.command).run(context);
}

// A rank that fails alone ends the others.
int report_failure(Communicator& comm, const Error& error) {
  const int code = static_cast<int>(error.code());
  const bool alone = comm.size() > 1 && !error.on_all_ranks();
  if (alone || comm.is_root())
    fmt::print(stderr, "gpuhpc: {}{}\n", alone ? fmt::format("rank {} on {}: ", comm.rank(), comm.host()) : "", error.what());
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
    return report_failure(comm, Error(ExitCode::out_of_memory, fmt::format("out of memory: {}", e.what_without_backtrace())));
  } catch (const std::bad_alloc&) {
    return report_failure(comm, Error(ExitCode::out_of_memory, "out of host memory; start fewer ranks on a host or use more hosts"));
  } catch (const std::exception& e) {
    return report_failure(comm, Error(ExitCode::internal, e.what()));
  }
}

// Before MPI starts: with a wrong launch MPI may end the process in its own words.
int report_launch(const Error& error) {
  const char* task = std::getenv("SLURM_PROCID");
  if (task == nullptr || std::strcmp(task, "0") == 0) fmt::print(stderr, "gpuhpc: {}\n", error.what());
  else std::this_thread::sleep_for(std::chrono::seconds(1));  // srun may end task 0 as soon as another one leaves
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
