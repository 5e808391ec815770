#pragma once
// Work over N documents is cut into blocks of fixed size whatever the rank count, then dealt to
// ranks in contiguous runs: every number computed per block is then the same bits on any number of
// ranks. Within a rank, threads take items one by one (parallel_for).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuhpc {

struct Range {
  std::int64_t first = 0, last = 0;  // [first, last)
  std::int64_t size() const { return last - first; }
};

// The blocks [first, last) of `count` blocks that belong to `rank` of `size` ranks.
inline Range blocks_of_rank(std::int64_t count, int rank, int size) {
  return {count * rank / size, count * (rank + 1) / size};
}

inline std::int64_t block_count(std::int64_t items, std::int64_t block_size) {
  return (items + block_size - 1) / block_size;
}

// The items of one block.
inline Range block_items(std::int64_t block, std::int64_t items, std::int64_t block_size) {
  return {block * block_size, std::min(items, (block + 1) * block_size)};
}

// The items [first, last) of the blocks that belong to `rank`.
inline Range items_of_rank(std::int64_t items, std::int64_t block_size, int rank, int size) {
  const Range blocks = blocks_of_rank(block_count(items, block_size), rank, size);
  return {std::min(items, blocks.first * block_size), std::min(items, blocks.last * block_size)};
}

// Calls work(i, thread) for every i in [first, last); thread in [0, threads).
template <typename Work>
void parallel_for(std::int64_t first, std::int64_t last, int threads, const Work& work) {
  std::atomic<std::int64_t> next{first};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run = [&](int thread) {
    try {
      for (std::int64_t i = next++; i < last; i = next++) work(i, thread);
    } catch (...) {
      next = last;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int count = static_cast<int>(std::min<std::int64_t>(threads, last - first));
  std::vector<std::thread> pool;
  for (int t = 1; t < count; ++t) pool.emplace_back(run, t);
  run(0);
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gpuhpc
