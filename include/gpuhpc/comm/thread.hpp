#pragma once
// Ranks that are threads of one process: no MPI launch.
#include <functional>
#include <memory>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Whether some of the ranks are threads of one process. Collective.
bool share_a_process(Communicator& comm);

// One communicator a thread. Different collectives are always detected. A collective throws peer on
// every rank that is in it when a rank stays away longer than options.timeout, or has destroyed its
// communicator.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, const ParallelOptions& options = {});

// Runs `body` as `size` ranks, rank 0 on this thread, and throws the first failure of any of them.
// A rank that does not come back within options.timeout after another one failed cannot be stopped:
// the program ends with the failure's sentence and exit code.
void run_thread_ranks(int size, const ParallelOptions& options,
                      const std::function<void(Communicator&)>& body);

}  // namespace gpuhpc
