// lost_peer WAY: rank 1 is lost in the third collective; the others must say so and leave with exit
// code 79. WAY: killed | frozen | hangs | mismatch; at-the-end: all hang in MPI_Finalize, and
// leave with the work's own code; or runs: nobody is lost, until somebody takes
// the cable out (LINK_DOWN=5 bench/comm/namespaces.sh 2 1gbit lost_peer runs). A rank that goes on
// as if nothing were says "still here". lost_peer.sh looks.
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"

namespace {

// Stops this process; a child ends it later, so that a launcher that waits for all of them ends,
// too.
void freeze() {
  const pid_t self = getpid();
  if (fork() == 0) {
    sleep(12);
    kill(self, SIGKILL);
    _exit(0);
  }
  raise(SIGSTOP);
}

void lose(const std::string& way) {
  if (way == "killed") raise(SIGKILL);
  if (way == "frozen") freeze();
  if (way == "hangs") std::this_thread::sleep_for(std::chrono::hours(1));
}

int run(gpuhpc::Communicator& comm, const std::string& way) {
  std::vector<float> data(100'000, 1.0f);
  for (int step = 0; step < 2; ++step) comm.all_reduce(std::span<float>(data));
  while (way == "runs") comm.all_reduce(std::span<float>(data));
  if (comm.rank() == 1) lose(way);
  try {
    if (way == "mismatch" && comm.rank() == 1)
      comm.broadcast(std::span<float>(data), 0);
    else
      comm.start_all_reduce(data.data(), 777, gpuhpc::DataType::float32, gpuhpc::Reduce::sum)
          ->wait();
  } catch (const gpuhpc::Error& e) {
    fmt::print(stderr, "rank {}: {}\n", comm.rank(), e.what());
    return static_cast<int>(e.code());
  }
  fmt::print(stderr, "rank {}: still here\n", comm.rank());
  return 0;
}

bool hangs_at_the_end = false;

}  // namespace

// In MPI's place: nobody comes back. (Ranks that leave the fence of the real one may stall libpmix
// in mpirun.)
int MPI_Finalize() {
  if (hangs_at_the_end) std::this_thread::sleep_for(std::chrono::hours(1));
  return PMPI_Finalize();
}

int main(int argc, char** argv) {
  const gpuhpc::MpiSession mpi;
  const std::string way = argc > 1 ? argv[1] : "frozen";
  gpuhpc::ParallelOptions options;
  options.timeout = 2;
  options.check_collectives = way == "mismatch";
  hangs_at_the_end = way == "at-the-end";
  const int code = hangs_at_the_end ? 75 : run(*gpuhpc::MpiSession::world(options), way);
  return gpuhpc::MpiSession::finish(code);
}
