#include "gpuhpc/train/loader.hpp"

#include <algorithm>

namespace gpuhpc {

int LoaderOptions::threads(int of_rank) const {
  return static_cast<int>(workers >= 0 ? workers : std::min(8, of_rank / 2));
}

void declare(config::Section& section, LoaderOptions& options) {
  section
      .option("workers", options.workers,
              "threads of a rank that read and pack micro-batches before their turn (0: none, the "
              "rank does it itself; auto: half of --device.threads, at most 8)")
      .range(-1, 1024)
      .word("auto", -1)
      .execution();
  section
      .option("prefetch", options.prefetch,
              "micro-batches that they make ready beside those of the update in hand")
      .range(1, 1e6)
      .execution();
}

Loader::Loader(const Task& task, int threads) : task_(task) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {  // no destructor follows, and threads that run would end the program
    end();
    throw;
  }
}

Loader::~Loader() { end(); }

void Loader::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    to_do_.clear();
  }
  something_to_do_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::ask(std::vector<std::int64_t> items, std::int64_t step) {
  std::packaged_task<std::any()> job(
      [this, items = std::move(items), step] { return task_.load(items, step); });
  asked_.push_back(job.get_future());
  {
    const std::lock_guard lock(mutex_);
    to_do_.push_back(std::move(job));
  }
  something_to_do_.notify_one();
}

std::any Loader::next() {
  std::future<std::any> oldest = std::move(asked_.front());
  asked_.pop_front();
  if (threads_.empty()) {
    std::packaged_task<std::any()> job = std::move(to_do_.front());
    to_do_.pop_front();
    job();
  }
  return oldest.get();
}

void Loader::forget() {
  const std::lock_guard lock(mutex_);
  to_do_.clear();
  asked_.clear();  // one that is under way ends without a reader
}

void Loader::work() {
  while (true) {
    std::packaged_task<std::any()> job;
    {
      std::unique_lock lock(mutex_);
      something_to_do_.wait(lock, [&] { return over_ || !to_do_.empty(); });
      if (over_) return;
      job = std::move(to_do_.front());
      to_do_.pop_front();
    }
    job();
  }
}

}  // namespace gpuhpc
