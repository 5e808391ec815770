#pragma once
// Independent pieces of work over a few threads of this rank; the first exception is thrown to the
// caller.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuhpc {

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
