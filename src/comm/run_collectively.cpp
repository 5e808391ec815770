#include "gpuhpc/comm/run_collectively.hpp"

#include <c10/util/Exception.h>

#include <new>
#include <optional>

#include "gpuhpc/base/system_error.hpp"

namespace gpuhpc {

std::optional<Error> run_catching(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::out_of_memory,
                 "out of host memory; use fewer ranks per host or a smaller --train.micro-batch");
  } catch (const c10::OutOfMemoryError& e) {
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

void on_root(Communicator& comm, const std::function<void()>& work) {
  run_collectively(comm, comm.is_root() ? work : std::function<void()>([] {}));
}

}  // namespace gpuhpc
