#pragma once
// Reads and packs micro-batches before their turn, on threads of its own.
#include <any>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

// Section [data].
struct LoaderOptions {
  static constexpr const char* section = "data";
  std::int64_t workers = -1;  // threads of a rank; -1 (auto): half of its own, at most 8
  std::int64_t prefetch = 4;  // micro-batches that are asked for behind the batch in hand
  int threads(int of_rank) const;
};
void declare(config::Section& section, LoaderOptions& options);

class Loader {
 public:
  // Without threads next() loads itself. The task must outlive this.
  Loader(const Task& task, int threads);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  bool has_threads() const { return !threads_.empty(); }
  std::size_t threads() const { return threads_.size(); }
  // The micro-batch whose turn comes behind all that were asked for.
  void ask(std::vector<std::int64_t> items, std::int64_t step);
  // What Task::load returned for the oldest of them. Waits for it; throws what it threw.
  std::any next();
  // What was asked for is not wanted any more.
  void forget();

 private:
  void end();  // the threads leave
  void work();

  const Task& task_;
  std::mutex mutex_;
  std::condition_variable something_to_do_;
  bool over_ = false;
  std::deque<std::packaged_task<std::any()>> to_do_;
  std::deque<std::future<std::any>> asked_;
  std::vector<std::thread> threads_;
};

}  // namespace gpuhpc
