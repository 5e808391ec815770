#include "gpuhpc/train/micro_batch.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"

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

std::int64_t piece_count(std::int64_t items, std::int64_t micro_batch, int ranks) {
  const std::int64_t wanted = micro_batch > 0 ? block_count(items, micro_batch) : 0;
  return std::max(wanted, std::min<std::int64_t>(ranks, items));
}

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch) {
  // A stream of its own: the shuffle of epoch e uses stream e.
  RandomStream stream(seed ^ 0x9e3779b97f4a7c15ULL, (static_cast<std::uint64_t>(step) << 24) +
                                                        static_cast<std::uint64_t>(micro_batch));
  return stream.next();
}

std::vector<std::vector<std::int64_t>> cut_micro_batches(const Task& task,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> by_cost;  // (cost, item)
  for (const std::int64_t item : batch) by_cost.emplace_back(task.cost(item), item);
  std::ranges::sort(by_cost, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const std::int64_t items = std::ssize(batch), count = piece_count(items, micro_batch, ranks);
  std::vector<std::vector<std::int64_t>> parts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < items; ++i) {  // there and back: 0 1 2 2 1 0 0 1 2 ..
    const std::int64_t place = i % (2 * count);
    parts[static_cast<std::size_t>(place < count ? place : 2 * count - 1 - place)].push_back(
        by_cost[static_cast<std::size_t>(i)].second);
  }
  return parts;
}

BatchShape batch_shape(std::int64_t documents, std::int64_t micro_batch, int ranks) {
  const std::int64_t parts = std::max(std::int64_t{1}, piece_count(documents, micro_batch, ranks));
  return {ranks, block_count(documents, parts), block_count(parts, ranks)};
}

bool ends_quarter(std::int64_t micro_batch, std::int64_t count) {
  return micro_batch * 4 / count != (micro_batch + 1) * 4 / count;
}

Range micro_batches_of_rank(std::int64_t count, int rank, int ranks) {
  return {block_count(count * rank, ranks), block_count(count * (rank + 1), ranks)};
}

}  // namespace gpuhpc
