#include "gpuhpc/comm/thread.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/collective.hpp"
#include "gpuhpc/comm/reduce.hpp"

namespace gpuhpc {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// What the ranks share. Between two meetings every rank may read the places of all.
class ThreadGroup final : public PeerBoard {
 public:
  struct Place {
    CollectiveCall call;
    const void* send = nullptr;
    void* receive = nullptr;
    bool left = false;
    std::optional<CollectiveCall> noted;
  };

  explicit ThreadGroup(int size)
      : hosts_(static_cast<std::size_t>(size), host_name()), places_(hosts_.size()) {}

  // Enters a collective and waits until all ranks have.
  void enter(int rank, const CollectiveCall& call, const void* send, void* receive,
             double timeout) {
    std::unique_lock lock(mutex_);
    Place& mine = places_[static_cast<std::size_t>(rank)];
    mine.call = call;
    mine.send = send;
    mine.receive = receive;
    meet(lock, rank, timeout);
    std::vector<CollectiveCall> calls;
    for (const Place& place : places_) calls.push_back(place.call);
    if (const auto mismatch = find_mismatch(calls, hosts_))
      throw Error(ExitCode::peer, *mismatch + "; this is a bug in gpuhpc", true);
  }
  // Waits until all ranks are done with each other's buffers.
  void finish(int rank, double timeout) {
    std::unique_lock lock(mutex_);
    meet(lock, rank, timeout);
  }
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    places_[static_cast<std::size_t>(rank)].left = true;
    changed_.notify_all();
  }
  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(places_.size()); }

  void note(const CollectiveCall&) override {
    throw internal_error("a rank notes through its own communicator");
  }
  void note(int rank, const CollectiveCall& call) {
    const std::lock_guard lock(mutex_);
    places_[static_cast<std::size_t>(rank)].noted = call;
  }
  std::vector<std::optional<CollectiveCall>> ask_noted() override {
    const std::lock_guard lock(mutex_);
    std::vector<std::optional<CollectiveCall>> all;
    for (const Place& place : places_)
      all.push_back(place.left ? std::nullopt
                               : std::optional(place.noted.value_or(CollectiveCall{})));
    return all;
  }
  const std::vector<std::string>& hosts() const override { return hosts_; }

 private:
  void meet(std::unique_lock<std::mutex>& lock, int rank, double timeout) {
    if (failure_.empty() && ++arrived_ == size()) {
      arrived_ = 0;
      ++meetings_;
      changed_.notify_all();
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout);
    const std::uint64_t before = meetings_;
    while (failure_.empty() && meetings_ == before) {
      for (int peer = 0; peer < size(); ++peer)
        if (place(peer).left)
          fail(fmt::format("rank {} on {} has left while rank {} waits for it in {}", peer,
                           hosts_[0], rank, describe(place(rank).call)));
      if (!failure_.empty()) break;
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && meetings_ == before)
        fail(late(rank, timeout));
    }
    if (meetings_ == before) throw Error(ExitCode::peer, failure_, true);
  }
  std::string late(int rank, double timeout) const {
    std::vector<std::optional<CollectiveCall>> entered;
    for (const Place& place : places_) entered.emplace_back(place.call);
    const std::string sentence = name_missing(place(rank).call, timeout, rank, entered, hosts_);
    return sentence.empty()
               ? fmt::format("{} did not end within {:.0f} s", describe(place(rank).call), timeout)
               : sentence;
  }
  void fail(const std::string& sentence) {
    if (failure_.empty()) failure_ = sentence;
    changed_.notify_all();
  }

  const std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_;
  int arrived_ = 0;
  std::uint64_t meetings_ = 0;
  std::string failure_;  // of the group: nobody can be waited for any more
};

class ThreadCommunicator final : public Communicator, private PeerBoard {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank, const ParallelOptions& options)
      : group_(std::move(group)), rank_(rank), timeout_(static_cast<double>(options.timeout)) {}
  ~ThreadCommunicator() override { group_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int node_rank() const override { return rank_; }
  int node_size() const override { return size(); }
  std::string host() const override { return group_->hosts()[0]; }
  void configure(const ParallelOptions& options) override {
    timeout_ = static_cast<double>(options.timeout);
  }
  PeerBoard* peer_board() override { return this; }

  void barrier() override {
    run({.kind = CollectiveKind::barrier}, nullptr, nullptr, [] {});
  }
  // Each rank adds up its share of the elements, in rank order, and hands it to the others.
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    run({.kind = CollectiveKind::all_reduce, .type = type, .reduce = reduce, .count = count},
        nullptr, data, [&] {
          const std::int64_t first = count * rank_ / size(), last = count * (rank_ + 1) / size();
          std::vector<const void*> rows;
          for (int r = 0; r < size(); ++r)
            rows.push_back(shifted(group_->place(r).receive, first, type));
          char* mine = shifted(data, first, type);
          reduce_rows(rows, mine, last - first, type, reduce);
          for (int r = 0; r < size(); ++r)
            if (r != rank_)
              copy(mine, last - first, type, shifted(group_->place(r).receive, first, type));
        });
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    run({.kind = CollectiveKind::broadcast, .type = type, .root = root, .count = count}, nullptr,
        data, [&] {
          if (rank_ != root) copy(group_->place(root).receive, count, type, data);
        });
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    gather({.kind = CollectiveKind::all_gather, .type = type, .count = count}, send, receive,
           std::vector<std::int64_t>(static_cast<std::size_t>(size()), count));
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    std::int64_t total = 0;
    for (const auto n : counts) total += n;
    if (std::ssize(counts) != size() || counts[static_cast<std::size_t>(rank_)] != count)
      throw internal_error("all_gather_ragged: counts do not fit {} elements of rank {} of {}",
                           count, rank_, size());
    gather({.kind = CollectiveKind::all_gather_ragged, .type = type, .count = total}, send, receive,
           counts);
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    run({.kind = CollectiveKind::reduce_scatter, .type = type, .reduce = reduce, .count = count},
        send, receive, [&] {
          std::vector<const void*> rows;
          for (int r = 0; r < size(); ++r)
            rows.push_back(shifted(group_->place(r).send, rank_ * count, type));
          reduce_rows(rows, receive, count, type, reduce);
        });
  }

 private:
  template <typename Action>
  void run(CollectiveCall call, const void* send, void* receive, Action action) {
    call.sequence = ++sequence_;
    group_->enter(rank_, call, send, receive, timeout_);
    action();
    group_->finish(rank_, timeout_);
  }
  void gather(const CollectiveCall& call, const void* send, void* receive,
              std::span<const std::int64_t> counts) {
    run(call, send, receive, [&] {
      std::int64_t at = 0;
      for (int r = 0; r < size(); ++r) {
        const std::int64_t n = counts[static_cast<std::size_t>(r)];
        copy(group_->place(r).send, n, call.type, shifted(receive, at, call.type));
        at += n;
      }
    });
  }
  static char* shifted(void* data, std::int64_t at, DataType type) {
    return static_cast<char*>(data) + at * static_cast<std::int64_t>(size_of(type));
  }
  static const char* shifted(const void* data, std::int64_t at, DataType type) {
    return static_cast<const char*>(data) + at * static_cast<std::int64_t>(size_of(type));
  }
  static void copy(const void* from, std::int64_t count, DataType type, void* to) {
    if (count > 0 && from != to)
      std::memcpy(to, from, static_cast<std::size_t>(count) * size_of(type));
  }

  void note(const CollectiveCall& entered) override { group_->note(rank_, entered); }
  std::vector<std::optional<CollectiveCall>> ask_noted() override { return group_->ask_noted(); }
  const std::vector<std::string>& hosts() const override { return group_->hosts(); }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  double timeout_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

bool share_a_process(Communicator& comm) {
  std::vector<std::string> processes =
      comm.all_gather_strings(fmt::format("{} {}", comm.host(), ::getpid()));
  std::ranges::sort(processes);
  return std::ranges::adjacent_find(processes) != processes.end();
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, const ParallelOptions& options) {
  const auto group = std::make_shared<ThreadGroup>(size);
  std::vector<std::unique_ptr<Communicator>> all;
  for (int rank = 0; rank < size; ++rank)
    all.push_back(std::make_unique<ThreadCommunicator>(group, rank, options));
  return all;
}

namespace {

// How the threads of run_thread_ranks end.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::exception_ptr first;
};

void run_rank(Outcome& outcome, std::unique_ptr<Communicator> comm,
              const std::function<void(Communicator&)>& body) {
  std::exception_ptr failure;
  try {
    body(*comm);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(
      outcome
          .mutex);  // before the communicator goes: the others' complaint is not the first failure
  if (!outcome.first) outcome.first = failure;
  comm.reset();
  --outcome.running;
  outcome.changed.notify_all();
}

// What the first failure says, and its exit code.
[[noreturn]] void leave(const Outcome& outcome) {
  std::string sentence = "a rank failed";
  ExitCode code = ExitCode::peer;
  try {
    std::rethrow_exception(outcome.first);
  } catch (const Error& e) {
    sentence = e.what(), code = e.code();
  } catch (const std::exception& e) {
    sentence = e.what();
  } catch (...) {
  }
  fmt::print(stderr, "gpuhpc: {}; {} ranks do not come back, the program ends\n", sentence,
             outcome.running);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(code));
}

}  // namespace

void run_thread_ranks(int size, const ParallelOptions& options,
                      const std::function<void(Communicator&)>& body) {
  auto comms = make_thread_communicators(size, options);
  Outcome outcome;
  outcome.running = size;
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < size; ++rank)
      threads.emplace_back(
          [&, rank] { run_rank(outcome, std::move(comms[static_cast<std::size_t>(rank)]), body); });
  } catch (...) {  // the ranks without a thread leave, so that the others find out
    {
      const std::lock_guard lock(outcome.mutex);
      outcome.first = std::current_exception();
    }
    comms[0].reset();
    for (std::size_t rank = threads.size() + 1; rank < comms.size(); ++rank) comms[rank].reset();
    for (std::thread& thread : threads) thread.join();
    throw;
  }
  run_rank(outcome, std::move(comms[0]), body);
  {
    std::unique_lock lock(outcome.mutex);
    const auto ended = [&] { return outcome.running == 0; };
    outcome.changed.wait(lock, [&] { return ended() || outcome.first; });
    if (!outcome.changed.wait_for(lock, std::chrono::seconds(options.timeout), ended))
      leave(outcome);
  }
  for (std::thread& thread : threads) thread.join();
  if (outcome.first) std::rethrow_exception(outcome.first);
}

}  // namespace gpuhpc
