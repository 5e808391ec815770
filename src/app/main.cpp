#include <cstdlib>
#include <cstring>
#include <thread>

#include "gpuhpc/app/application.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/launch.hpp"
#include "gpuhpc/comm/mpi.hpp"

namespace {

// Before MPI starts: with a wrong launch MPI may end the process in its own words.
int report_launch(const gpuhpc::Error& error) {
  const char* task = std::getenv("SLURM_PROCID");
  if (task == nullptr || std::strcmp(task, "0") == 0) fmt::print(stderr, "gpuhpc: {}\n", error.what());
  else std::this_thread::sleep_for(std::chrono::seconds(1));  // srun may end task 0 as soon as another one leaves
  return static_cast<int>(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    gpuhpc::check_launch(std::getenv);
  } catch (const gpuhpc::Error& error) {
    return report_launch(error);
  }
  gpuhpc::hold_stop_signals();
  gpuhpc::MpiSession mpi(&argc, &argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto world = gpuhpc::MpiSession::world();
  return gpuhpc::run_application(*world, arguments, [](int code) { gpuhpc::MpiSession::abort(code); });
}
