#include "gpuhpc/train/micro_batch.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

std::int64_t largest_fitting(std::int64_t limit, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t good = 0, bad = limit + 1;
  for (std::int64_t size = 1; good < limit && bad > limit; size = std::min(limit, 2 * size))
    (fits(size) ? good : bad) = size;
  while (bad - good > std::max<std::int64_t>(1, good / 8)) {
    const std::int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

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
  } catch (const c10::Error& e) {  // LibTorch's own host allocator has no type of its own
    return std::string_view(e.what_without_backtrace()).find("DefaultCPUAllocator") !=
           std::string_view::npos;
  } catch (...) {
    return false;
  }
}

BatchShape batch_shape(std::int64_t documents, std::int64_t micro_batch, int ranks) {
  const std::int64_t wanted = micro_batch > 0 ? block_count(documents, micro_batch) : 0;
  const std::int64_t parts =
      std::max({std::int64_t{1}, wanted, std::min<std::int64_t>(ranks, documents)});
  return {ranks, block_count(documents, parts), block_count(parts, ranks)};
}

bool ends_quarter(std::int64_t micro_batch, std::int64_t count) {
  return micro_batch * 4 / count != (micro_batch + 1) * 4 / count;
}

Range micro_batches_of_rank(std::int64_t count, int rank, int ranks) {
  return {block_count(count * rank, ranks), block_count(count * (rank + 1), ranks)};
}

}  // namespace gpuhpc
