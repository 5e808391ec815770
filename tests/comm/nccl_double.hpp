#pragma once
// NCCL and CUDA streams played over host memory and a communicator: every stream but the compute
// stream is a thread that runs what was put on it in order; the compute stream is the calling
// thread. Answers "in progress" first, as NCCL does.
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/nccl.hpp"

namespace gpuhpc {

class NcclDouble {
 public:
  explicit NcclDouble(Communicator& inner) : inner_(inner) {}

  NcclApi api();
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void forget_calls() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }
  void break_network() { broken_ = true; }  // comm_get_async_error tells
  // error_text takes so long from now on; whether somebody waits for it.
  void take_time_to_tell(std::chrono::milliseconds time) { telling_takes_ = time; }
  bool telling() const { return telling_; }
  void refuse_id() { refuses_id_ = true; }
  void refuse_to_connect() { refuses_to_connect_ = true; }
  void refuse_to_destroy() { refuses_to_destroy_ = true; }  // gone all the same
  // Every call of the compute stream throws from now on, as after an error that stays.
  void break_device(bool broken = true) { device_broken_ = broken; }
  int alive() const { return alive_; }  // streams, events and communicators not yet destroyed
  bool aborted() const { return aborted_; }

  static constexpr int kSystemError = 2, kRemoteError = 6;

 private:
  struct FakeEvent {
    std::atomic<bool> done = false;
  };
  struct FakeStream {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool ending = false;
    std::thread thread;
    void run() {
      std::unique_lock lock(mutex);
      for (;;) {
        changed.wait(lock, [this] { return ending || !work.empty(); });
        if (work.empty()) return;
        const auto next = std::move(work.front());
        work.pop_front();
        lock.unlock();
        next();
        lock.lock();
      }
    }
    void put(std::function<void()> what) {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(what));
      changed.notify_all();
    }
  };

  void add_streams(NcclApi& api);
  void add_collectives(NcclApi& api);
  void add_life_cycle(NcclApi& api);
  void wait_for(FakeEvent* event) const {
    while (!event->done && !aborted_) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  void log(std::string call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  int launch(void* stream, std::string name, std::function<void()> work) {
    log(std::move(name));
    if (group_ > 0)
      grouped_.emplace_back(static_cast<FakeStream*>(stream), std::move(work));
    else
      static_cast<FakeStream*>(stream)->put(std::move(work));
    progress_ = 2;
    return NcclApi::kInProgress;
  }

  Communicator& inner_;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::vector<std::pair<FakeStream*, std::function<void()>>> grouped_;
  int group_ = 0;
  std::atomic<int> progress_ = 0;  // polls that still answer "in progress"
  std::atomic<int> alive_ = 0;
  std::atomic<bool> broken_ = false, refuses_id_ = false, refuses_to_connect_ = false,
                    refuses_to_destroy_ = false, device_broken_ = false, aborted_ = false,
                    telling_ = false;
  std::atomic<std::chrono::milliseconds> telling_takes_{std::chrono::milliseconds(0)};
};

inline NcclApi NcclDouble::api() {
  NcclApi api;
  add_streams(api);
  add_collectives(api);
  add_life_cycle(api);
  return api;
}

inline void NcclDouble::add_streams(NcclApi& api) {
  api.set_device = [] {};
  api.create_stream = [this] {
    ++alive_;
    auto* stream = new FakeStream;
    stream->thread = std::thread([stream] { stream->run(); });
    return static_cast<void*>(stream);
  };
  api.destroy_stream = [this](void* handle) {
    auto* stream = static_cast<FakeStream*>(handle);
    {
      const std::lock_guard lock(stream->mutex);
      stream->ending = true;
    }
    stream->changed.notify_all();
    stream->thread.join();
    delete stream;
    --alive_;
  };
  api.compute_stream = [] { return nullptr; };
  api.create_event = [this] {
    ++alive_;
    return static_cast<void*>(new std::shared_ptr<FakeEvent>(std::make_shared<FakeEvent>()));
  };
  api.destroy_event = [this](void* event) {
    delete static_cast<std::shared_ptr<FakeEvent>*>(event);
    --alive_;
  };
  api.record_event = [this](void* event, void* stream) {
    log(stream == nullptr ? "record on compute" : "record on own");
    const auto shared = *static_cast<std::shared_ptr<FakeEvent>*>(event);
    if (stream == nullptr)
      shared->done = true;
    else
      static_cast<FakeStream*>(stream)->put([shared] { shared->done = true; });
  };
  api.event_done = [](void* event) {
    return (*static_cast<std::shared_ptr<FakeEvent>*>(event))->done.load();
  };
  api.stream_wait_event = [this](void* stream, void* event) {
    log(stream == nullptr ? "compute waits" : "own waits");
    if (stream == nullptr && device_broken_)
      throw c10::Error({__func__, __FILE__, 1}, "CUDA error: an illegal memory access");
    const auto shared = *static_cast<std::shared_ptr<FakeEvent>*>(event);
    if (stream == nullptr)
      wait_for(shared.get());
    else
      static_cast<FakeStream*>(stream)->put([this, shared] { wait_for(shared.get()); });
  };
}

inline void NcclDouble::add_collectives(NcclApi& api) {
  api.all_reduce = [this](const void* send, void* receive, std::int64_t count, DataType type,
                          Reduce reduce, void*, void* stream) {
    return launch(stream, "all_reduce " + std::to_string(count), [=, this] {
      if (send != receive)
        std::memcpy(receive, send, static_cast<std::size_t>(count) * size_of(type));
      inner_.all_reduce(receive, count, type, reduce);
    });
  };
  api.reduce_scatter = [this](const void* send, void* receive, std::int64_t count, DataType type,
                              Reduce reduce, void*, void* stream) {
    return launch(stream, "reduce_scatter " + std::to_string(count),
                  [=, this] { inner_.reduce_scatter(send, receive, count, type, reduce); });
  };
  api.all_gather = [this](const void* send, void* receive, std::int64_t count, DataType type, void*,
                          void* stream) {
    return launch(stream, "all_gather " + std::to_string(count),
                  [=, this] { inner_.all_gather(send, count, type, receive); });
  };
  api.broadcast = [this](const void* send, void* receive, std::int64_t count, DataType type,
                         int root, void*, void* stream) {
    return launch(stream, "broadcast " + std::to_string(count) + " from " + std::to_string(root),
                  [=, this] {
                    if (inner_.rank() == root && send != receive)
                      std::memcpy(receive, send, static_cast<std::size_t>(count) * size_of(type));
                    inner_.broadcast(receive, count, type, root);
                  });
  };
  api.group_start = [this] {
    log("group_start");
    ++group_;
    return NcclApi::kSuccess;
  };
  api.group_end = [this] {
    log("group_end");
    if (--group_ == 0) {
      for (auto& [stream, work] : grouped_) stream->put(std::move(work));
      grouped_.clear();
    }
    progress_ = 2;
    return NcclApi::kInProgress;
  };
}

inline void NcclDouble::add_life_cycle(NcclApi& api) {
  api.get_unique_id = [this](NcclId& id) {
    id.fill('x');
    return refuses_id_ ? kSystemError : NcclApi::kSuccess;
  };
  api.comm_init_rank_config = [this](void*& comm, int size, const NcclId& id, int rank) {
    log("init " + std::to_string(rank) + " of " + std::to_string(size));
    if (id[127] != 'x' || refuses_to_connect_) return kSystemError;
    ++alive_;
    comm = this;
    progress_ = 3;
    return NcclApi::kInProgress;
  };
  api.comm_get_async_error = [this](void*, int& state) {
    state = broken_ ? kRemoteError : progress_ > 0 ? NcclApi::kInProgress : NcclApi::kSuccess;
    if (progress_ > 0) --progress_;
    return NcclApi::kSuccess;
  };
  api.comm_finalize = [this](void*) {
    log("finalize");
    progress_ = 2;
    return NcclApi::kInProgress;
  };
  const auto end = [this](const char* how) {
    log(how);
    --alive_;
    return NcclApi::kSuccess;
  };
  api.comm_destroy = [this, end](void*) {
    const int result = end("destroy");
    return refuses_to_destroy_ ? kSystemError : result;
  };
  api.comm_abort = [this, end](void*) {
    aborted_ = true;
    return end("abort");
  };
  api.error_text = [this](int result) {
    telling_ = true;
    std::this_thread::sleep_for(telling_takes_.load());
    return result == kRemoteError ? std::string("remote process exited")
                                  : "system error " + std::to_string(result);
  };
}

}  // namespace gpuhpc
