#include "gpuhpc/comm/nccl.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/collective.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(10);

// Owns one event; shared by the work and the watch.
class Event {
 public:
  explicit Event(const NcclApi& api) : api_(api), handle_(api.create_event()) {}
  ~Event() { api_.destroy_event(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  NcclApi::Event handle() const { return handle_; }

 private:
  const NcclApi& api_;
  NcclApi::Event handle_;
};

// The thread that looks at what is under way: errors, time-outs.
class NcclWatch {
 public:
  NcclWatch(Communicator& host, const NcclApi& api, NcclApi::Comm comm, double timeout)
      : host_(host), api_(api), comm_(comm), timeout_(timeout), thread_([this] { run(); }) {}
  ~NcclWatch() { stop(); }

  // Ends the thread: what failed() says from now on stays.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void add(const CollectiveCall& call, std::shared_ptr<Event> done) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) under_way_.push_back({call, std::move(done), Clock::now()});
    changed_.notify_all();
  }
  void set_timeout(double timeout) { timeout_ = timeout; }
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return !failure_.empty();
  }
  void throw_failure() const {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw Error(ExitCode::peer, failure_);
  }
  // What NCCL knows by now, not only what the thread has seen.
  void check() {
    int state = NcclApi::kSuccess;
    const int result = use([&] { return api_.comm_get_async_error(comm_, state); });
    for (const int code : {result, state})
      if (code != NcclApi::kSuccess && code != NcclApi::kInProgress) {
        fail(fmt::format("rank {} on {}: NCCL failed: {}; NCCL_DEBUG=WARN tells more", host_.rank(),
                         host_.host(), api_.error_text(code)));
        throw_failure();
      }
  }
  // Every use of the communicator: nobody aborts it meanwhile, and none happens after.
  template <typename Call>
  int use(const Call& call) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw Error(ExitCode::peer, failure_);
    return call();
  }
  // Aborts the communicator, once: kernels that wait for a lost rank end, and with them whoever
  // waits for their stream.
  void fail(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = sentence;
    api_.comm_abort(comm_);
    under_way_.clear();
  }

 private:
  struct UnderWay {
    CollectiveCall call;
    std::shared_ptr<Event> done;
    Clock::time_point since;
  };

  void run() {
    try {
      api_.set_device();
      watch();
    } catch (const std::exception& e) {
      fail(fmt::format("rank {} on {}: {}", host_.rank(), host_.host(), e.what()));
    }
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      if (under_way_.empty()) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_for(lock, kPoll, [this] { return ending_; });
      while (!under_way_.empty() && api_.event_done(under_way_.front().done->handle()))
        under_way_.pop_front();
      if (under_way_.empty()) continue;
      const UnderWay first = under_way_.front();
      lock.unlock();
      look_at(first);
      lock.lock();
    }
  }

  void look_at(const UnderWay& first) {
    int state = NcclApi::kSuccess;
    const int result = use([&] { return api_.comm_get_async_error(comm_, state); });
    const std::string place = fmt::format("rank {} on {}", host_.rank(), host_.host());
    for (const int code : {result, state})
      if (code != NcclApi::kSuccess && code != NcclApi::kInProgress)
        return fail(fmt::format("{}: NCCL failed in {}: {}; NCCL_DEBUG=WARN tells more", place,
                                describe(first.call), api_.error_text(code)));
    const double waited = std::chrono::duration<double>(Clock::now() - first.since).count();
    if (waited < timeout_) return;
    std::string sentence;
    if (PeerBoard* board = host_.peer_board())
      sentence = name_missing(first.call, waited, host_.rank(), board->ask_noted(), board->hosts());
    if (sentence.empty())
      sentence = fmt::format(
          "{} waited {:.0f} s for {}, which all ranks have entered but which does not end; check "
          "the network and the GPUs, or raise --parallel.timeout",
          place, waited, describe(first.call));
    fail(sentence);
  }

  Communicator& host_;
  const NcclApi& api_;
  NcclApi::Comm comm_;
  std::atomic<double> timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UnderWay> under_way_;
  std::string failure_;
  bool ending_ = false;
  std::thread thread_;
};

class NcclWork final : public Work {
 public:
  NcclWork(const NcclApi& api, NcclWatch& watch, std::shared_ptr<Event> done)
      : api_(api), watch_(watch), done_(std::move(done)) {}
  // A device that has failed refuses this, too, while the error that says so is on its way: as an
  // Error, or, from LibTorch's guard of the device, as a c10::Error.
  ~NcclWork() override {
    if (waited_) return;
    try {
      api_.stream_wait_event(api_.compute_stream(), done_->handle());
    } catch (...) {
    }
  }
  void wait() override {
    waited_ = true;
    api_.stream_wait_event(api_.compute_stream(), done_->handle());
    watch_.throw_failure();
  }

 private:
  const NcclApi& api_;
  NcclWatch& watch_;
  std::shared_ptr<Event> done_;
  bool waited_ = false;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, NcclApi api, const ParallelOptions& options)
      : host_(host), api_(std::move(api)), options_(options) {
    NcclId id{};
    on_root(host_,
            [&] { check(api_.get_unique_id(id), "making the id of the NCCL communicator"); });
    host_.broadcast(id.data(), std::ssize(id), DataType::uint8, 0);
    try {
      run_collectively(host_, [&] {
        connect(id);
        stream_ = api_.create_stream();
      });
    } catch (const Error&) {  // this rank may have connected while another failed
      if (comm_ != nullptr) api_.comm_abort(comm_);
      if (stream_ != nullptr) api_.destroy_stream(stream_);
      throw;
    }
    watch_ = std::make_unique<NcclWatch>(host_, api_, comm_, static_cast<double>(options.timeout));
  }
  ~NcclCommunicator() override {
    watch_->stop();  // or it could abort behind this question
    const bool failed = watch_->failed();
    watch_.reset();
    if (!failed) end();
    api_.destroy_stream(stream_);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int node_rank() const override { return host_.node_rank(); }
  int node_size() const override { return host_.node_size(); }
  std::string host() const override { return host_.host(); }
  PeerBoard* peer_board() override { return host_.peer_board(); }
  void configure(const ParallelOptions& options) override {
    options_ = options;
    watch_->set_timeout(static_cast<double>(options.timeout));
  }

  void check() override { watch_->check(); }
  void barrier() override { host_.barrier(); }
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    start_all_reduce(data, count, type, reduce)->wait();
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    start_all_gather(send, count, type, receive)->wait();
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    start_reduce_scatter(send, receive, count, type, reduce)->wait();
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    start({.kind = CollectiveKind::broadcast, .type = type, .root = root, .count = count}, count,
          [&] { return api_.broadcast(data, data, count, type, root, comm_, stream_); })
        ->wait();
  }
  // A broadcast for each rank's piece, all in one group.
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    std::int64_t total = 0;
    for (const auto n : counts) total += n;
    if (std::ssize(counts) != size() || counts[static_cast<std::size_t>(rank())] != count)
      throw internal_error("all_gather_ragged: counts do not fit {} elements of rank {} of {}",
                           count, rank(), size());
    start({.kind = CollectiveKind::all_gather_ragged, .type = type, .count = total}, total, [&] {
      return grouped(counts.size(), [&, slot = static_cast<char*>(receive)](std::size_t i) mutable {
        const std::int64_t n = counts[i];
        char* const own = slot;
        slot += n * static_cast<std::int64_t>(size_of(type));
        const int root = static_cast<int>(i);
        return n == 0 ? NcclApi::kSuccess
                      : api_.broadcast(root == rank() ? send : own, own, n, type, root, comm_,
                                       stream_);
      });
    })->wait();
  }

  std::unique_ptr<Work> start_all_reduce(void* data, std::int64_t count, DataType type,
                                         Reduce reduce) override {
    return start(
        {.kind = CollectiveKind::all_reduce, .type = type, .reduce = reduce, .count = count}, count,
        [&] { return api_.all_reduce(data, data, count, type, reduce, comm_, stream_); });
  }
  std::unique_ptr<Work> start_reduce_scatter(const void* send, void* receive, std::int64_t count,
                                             DataType type, Reduce reduce) override {
    return start(
        {.kind = CollectiveKind::reduce_scatter, .type = type, .reduce = reduce, .count = count},
        count,
        [&] { return api_.reduce_scatter(send, receive, count, type, reduce, comm_, stream_); });
  }
  std::unique_ptr<Work> start_all_gather(const void* send, std::int64_t count, DataType type,
                                         void* receive) override {
    return start({.kind = CollectiveKind::all_gather, .type = type, .count = count}, count,
                 [&] { return api_.all_gather(send, receive, count, type, comm_, stream_); });
  }
  std::unique_ptr<Work> start_all_gathers(std::span<const Gather> gathers, DataType type) override {
    std::int64_t total = 0;
    for (const Gather& one : gathers) total += one.count;
    return start({.kind = CollectiveKind::all_gather, .type = type, .count = total}, total, [&] {
      return grouped(gathers.size(), [&](std::size_t i) {
        const Gather& one = gathers[i];
        return api_.all_gather(one.send, one.receive, one.count, type, comm_, stream_);
      });
    });
  }

 private:
  void check(int result, const std::string& what) const {
    if (result != NcclApi::kSuccess && result != NcclApi::kInProgress)
      throw Error(ExitCode::peer,
                  fmt::format("rank {} on {}: {} failed: {}; NCCL_DEBUG=WARN tells more", rank(),
                              host(), what, api_.error_text(result)));
  }

  template <typename Call>
  int use(const Call& call) {
    return watch_ ? watch_->use(call) : call();
  }

  // A non-blocking call has returned `result`: waits until the communicator has taken it in.
  void settle(int result, const std::string& what, double patience) {
    const auto start = Clock::now();
    while (result == NcclApi::kInProgress) {
      if (std::chrono::duration<double>(Clock::now() - start).count() > patience)
        throw Error(ExitCode::peer, fmt::format("rank {} on {}: {} did not end within {:.0f} s",
                                                rank(), host(), what, patience));
      check(use([&] { return api_.comm_get_async_error(comm_, result); }), what);
      if (result == NcclApi::kInProgress)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    check(result, what);
  }

  // Half the time limit: a rank that fails at once waits the other half for the others in the
  // agreement behind this.
  void connect(const NcclId& id) {
    api_.set_device();
    const std::string what = "connecting the ranks by NCCL (each needs a GPU of its own)";
    settle(api_.comm_init_rank_config(comm_, size(), id, rank()), what,
           static_cast<double>(options_.timeout) / 2);
  }

  // All work is done. Where the ranks do not come to an end together, it is cut off; what was
  // destroyed, though with an error, is not touched again.
  void end() {
    try {
      settle(api_.comm_finalize(comm_), "ending the NCCL communicator", 10);
    } catch (const Error&) {
      api_.comm_abort(comm_);
      return;
    }
    api_.comm_destroy(comm_);
  }

  template <typename Call>
  std::unique_ptr<Work> start(CollectiveCall call, std::int64_t elements, const Call& launch) {
    call.sequence = ++sequence_;
    watch_->throw_failure();
    if (options_.check_collectives) compare(call);
    if (PeerBoard* board = host_.peer_board()) board->note(call);
    auto done = std::make_shared<Event>(api_);
    if (elements > 0) {
      const Event ready(api_);
      api_.record_event(ready.handle(), api_.compute_stream());
      api_.stream_wait_event(stream_, ready.handle());
      try {
        settle(use(launch), describe(call), static_cast<double>(options_.timeout));
      } catch (const Error& e) {
        watch_->fail(e.what());
        throw;
      }
    }
    api_.record_event(done->handle(), stream_);
    watch_->add(call, done);
    return std::make_unique<NcclWork>(api_, *watch_, std::move(done));
  }

  void compare(const CollectiveCall& mine) {
    std::vector<CollectiveCall> calls(static_cast<std::size_t>(size()));
    host_.all_gather(&mine, sizeof(mine), DataType::uint8, calls.data());
    const std::vector<std::string> hosts(static_cast<std::size_t>(size()), host());
    PeerBoard* board = host_.peer_board();
    if (const auto mismatch = find_mismatch(calls, board ? board->hosts() : hosts))
      throw Error(ExitCode::peer, *mismatch + "; this is a bug in gpuhpc", true);
  }

  // launch(0), launch(1), .. as one kernel. A group that was opened is closed, whatever happened.
  template <typename Launch>
  int grouped(std::size_t count, Launch launch) {
    int result = api_.group_start();
    if (result != NcclApi::kSuccess) return result;
    const auto fine = [&] { return result == NcclApi::kSuccess || result == NcclApi::kInProgress; };
    for (std::size_t i = 0; i < count && fine(); ++i) result = launch(i);
    const int ended = api_.group_end();
    return fine() ? ended : result;
  }

  Communicator& host_;
  const NcclApi api_;
  ParallelOptions options_;
  NcclApi::Comm comm_ = nullptr;
  NcclApi::Stream stream_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::unique_ptr<NcclWatch> watch_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, NcclApi api,
                                                     const ParallelOptions& options) {
  return std::make_unique<NcclCommunicator>(host, std::move(api), options);
}

}  // namespace gpuhpc
