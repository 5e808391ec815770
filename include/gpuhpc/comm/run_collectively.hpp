#pragma once
// Errors made common to all ranks: set-up and file work that can fail on one rank is wrapped, so
// that all ranks throw.
#include <atomic>
#include <exception>
#include <functional>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Did the allocator of host or device memory, or the program's own check, refuse?
bool is_out_of_memory(const std::exception_ptr& error);

// What `work` throws, whatever its type, as an Error with the exit code of the program.
std::optional<Error> run_catching(const std::function<void()>& work);

// Runs `work` on this rank, then all ranks agree: if any rank threw, every rank throws the error of
// the lowest such rank (same code and message). `work` must not contain collectives.
void run_collectively(Communicator& comm, const std::function<void()>& work);

// The same for work that takes long, or longer on one rank than on the others: a thread of each
// rank meets those of the others again and again until all are done, so that none comes to the time
// limit of a collective, and a rank that died is noticed. `asked` is set on all ranks once
// `asked_here` says so on one of them.
void run_long(Communicator& comm, const std::function<void()>& work,
              const std::function<bool()>& asked_here = {}, std::atomic<bool>* asked = nullptr);

// Runs `work` on rank 0 only; all ranks throw if it does.
void on_root(Communicator& comm, const std::function<void()>& work);

}  // namespace gpuhpc
