#include "gpuhpc/comm/run_collectively.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "gpuhpc/base/system_error.hpp"

namespace gpuhpc {

bool is_out_of_memory(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.code() == ExitCode::out_of_memory;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::Error& e) {
    // Those that have no type of their own: LibTorch's host allocator, the CUDA runtime and the
    // libraries on it, which take memory beside LibTorch's.
    const std::string_view text(e.what_without_backtrace());
    return std::ranges::any_of(
        std::array{"DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED",
                   "CUBLAS_STATUS_NOT_INITIALIZED",  // cublasCreate on a GPU that is full
                   "CUSOLVER_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
                   "CUDA error: out of memory", "CUDA driver error: out of memory"},
        [&](const char* sign) { return text.find(sign) != std::string_view::npos; });
  } catch (...) {
    return false;
  }
}

std::optional<Error> run_catching(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::out_of_memory,
                 "out of host memory; use fewer ranks per host or a smaller --train.micro-batch");
  } catch (const c10::Error& e) {
    if (!is_out_of_memory(std::current_exception())) return error_of(e);
    return Error(ExitCode::out_of_memory,
                 std::string("out of memory: ") + e.what_without_backtrace());
  } catch (const std::exception& e) {
    return error_of(e);
  }
}

void run_collectively(Communicator& comm, const std::function<void()>& work) {
  const std::optional<Error> mine = run_catching(work);
  const int first =
      comm.all_reduce_value<std::int32_t>(mine ? comm.rank() : comm.size(), Reduce::min);
  if (first == comm.size()) return;
  std::int32_t code = mine ? static_cast<std::int32_t>(mine->code()) : 0;
  comm.broadcast(&code, 1, DataType::int32, first);
  throw Error(static_cast<ExitCode>(code), comm.broadcast_string(mine ? mine->what() : "", first),
              true);
}

void run_long(Communicator& comm, const std::function<void()>& work,
              const std::function<bool()>& asked_here, std::atomic<bool>* asked) {
  if (comm.size() == 1) return run_collectively(comm, work);
  std::promise<void> over;
  std::exception_ptr lost;
  std::thread beat([&, ended = over.get_future()] {
    constexpr std::chrono::milliseconds pause(250);  // time limits are of a second or more
    try {
      for (bool busy = true; busy;) {
        std::array<std::int32_t, 2> said{ended.wait_for(pause) == std::future_status::timeout,
                                         asked_here && asked_here()};
        comm.all_reduce(std::span<std::int32_t>(said), Reduce::max);
        busy = said[0] != 0;
        if (asked != nullptr && said[1] != 0) *asked = true;
      }
    } catch (...) {
      lost = std::current_exception();
    }
  });
  const std::optional<Error> error = run_catching(work);
  over.set_value();
  beat.join();
  if (lost) std::rethrow_exception(lost);
  run_collectively(comm, [&] {
    if (error) throw Error(*error);
  });
}

void on_root(Communicator& comm, const std::function<void()>& work) {
  run_collectively(comm, comm.is_root() ? work : std::function<void()>([] {}));
}

}  // namespace gpuhpc
