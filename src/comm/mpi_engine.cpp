#include "mpi_engine.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::int64_t kPieceBytes = 4 << 20;  // longer buffers travel in pieces: pipelined, and within MPI's 32-bit counts
constexpr std::size_t kOpen = 16;              // pieces under way at once
constexpr std::int64_t kSmallGather = 64 << 10;  // bytes a rank; below, one MPI call is faster than one a rank
constexpr auto kBusy = microseconds(10);         // a poll that took this long moved data
constexpr auto kSpin = microseconds(60);         // polling without naps while somebody waits
constexpr auto kLongestNap = microseconds(1000);
constexpr auto kServe = milliseconds(50);  // how often peers' questions are looked for
constexpr double kPatience = 4;            // seconds a peer has for its answer

std::int64_t piece_length(const CollectiveCall& call) { return kPieceBytes / static_cast<std::int64_t>(size_of(call.type)); }
std::int64_t pieces_of(std::int64_t count, std::int64_t length) { return (count + length - 1) / length; }
const char* shifted(const void* data, std::int64_t elements, DataType type) {
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(type));
}
char* shifted(void* data, std::int64_t elements, DataType type) { return static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(type)); }

// One piece of a collective that consists of an MPI operation for each rank's block.
struct RootedPiece {
  int root = 0;
  std::int64_t block = 0;  // first element of the root's block in the whole buffer
  std::int64_t at = 0;     // of the piece in the block
  std::int64_t count = 0;
};

RootedPiece rooted_piece(const MpiJob& job, std::int64_t piece) {
  const std::int64_t length = piece_length(job.call);
  RootedPiece result;
  for (const std::int64_t count : job.counts) {
    const std::int64_t pieces = pieces_of(count, length);
    if (piece < pieces) {
      result.at = piece * length;
      result.count = std::min(length, count - result.at);
      return result;
    }
    piece -= pieces;
    result.block += count;
    ++result.root;
  }
  throw internal_error("piece {} of {} does not exist", piece, describe(job.call));
}

bool is_small_gather(const MpiJob& job) {
  return job.call.kind == CollectiveKind::all_gather && job.call.count * static_cast<std::int64_t>(size_of(job.call.type)) <= kSmallGather;
}

std::int64_t count_pieces(const MpiJob& job) {
  if (job.call.kind == CollectiveKind::barrier) return 1;
  if (is_small_gather(job)) return job.call.count > 0 ? 1 : 0;
  if (job.counts.empty()) return pieces_of(job.call.count, piece_length(job.call));
  std::int64_t pieces = 0;
  for (const std::int64_t count : job.counts) pieces += pieces_of(count, piece_length(job.call));
  return pieces;
}

}  // namespace

void Ticket::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return done_; });
  if (failure_) std::rethrow_exception(failure_);
}

void Ticket::finish(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
  }
  ended_.notify_all();
}

MpiEngine::MpiEngine(MPI_Comm parent) : peers_(parent) {
  check_mpi(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  last_turn_ = last_moved_ = last_served_ = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { run(); });
}

MpiEngine::~MpiEngine() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    news_ = true;
  }
  wake_.notify_one();
  thread_.join();
  MPI_Comm_free(&comm_);
}

std::shared_ptr<Ticket> MpiEngine::submit(MpiJob job) {
  auto ticket = std::make_shared<Ticket>();
  Running running;
  running.job = std::move(job);
  running.ticket = ticket;
  {
    const std::lock_guard lock(mutex_);
    running.job.call.sequence = ++sequence_;
    queue_.push_back(std::move(running));
    news_ = true;
  }
  wake_.notify_one();
  return ticket;
}

void MpiEngine::wait(Ticket& ticket) {
  ++waiting_;
  {
    const std::lock_guard lock(mutex_);
    news_ = true;
  }
  wake_.notify_one();
  try {
    ticket.wait();
  } catch (...) {
    --waiting_;
    throw;
  }
  --waiting_;
}

void MpiEngine::run() {
  prctl(PR_SET_NAME, "mpi-engine");
  prctl(PR_SET_TIMERSLACK, 1000);  // naps of microseconds, not of 50 and more
  while (take()) {
    bool moved = false;
    try {
      post();
      moved = test();
    } catch (const Error& e) {
      const std::string hint = "; if no rank died, the ranks may have called different collectives: --parallel.check-collectives true tells";
      peers_.leave(fmt::format("rank {} on {}: {}{}", rank_, hosts()[static_cast<std::size_t>(rank_)], e.what(), hint));
    }
    const auto now = std::chrono::steady_clock::now();
    clock_ += std::min(1.0, std::chrono::duration<double>(now - last_turn_).count());
    last_turn_ = now;
    if (moved) last_moved_ = now;
    if (now - last_served_ > kServe) {
      last_served_ = now;
      peers_.serve(state());
    }
    answer_questions();
    check_deadline();
    pause(moved);
  }
}

bool MpiEngine::take() {
  if (!news_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  news_ = false;
  if (!queue_.empty()) last_moved_ = std::chrono::steady_clock::now();
  for (; !queue_.empty(); queue_.pop_front()) running_.push_back(std::move(queue_.front()));
  if (ending_ && !running_.empty()) news_ = true;  // come back when they have ended
  return !ending_ || !running_.empty();
}

void MpiEngine::enter(Running& running) {
  running.entered = true;
  running.since = clock_;
  running.pieces = count_pieces(running.job);
  last_entered_ = running.job.call;
  if (!running.job.check) return;
  running.comparing = true;
  running.calls.resize(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&running.job.call, sizeof(CollectiveCall), MPI_BYTE, running.calls.data(), sizeof(CollectiveCall), MPI_BYTE, comm_, &request),
            "comparing collectives");
  add_request(running, request);
}

void MpiEngine::post() {
  for (Running& running : running_) {
    if (!running.entered && !failure_) enter(running);
    if (running.comparing) return;  // the next ones wait, too: their order is what is being checked
    while (!failure_ && running.posted < running.pieces) {
      if (requests_.size() >= kOpen) return;
      post_piece(running, running.posted++);
    }
  }
}

void MpiEngine::post_piece(Running& running, std::int64_t piece) {
  const MpiJob& job = running.job;
  const CollectiveCall& call = job.call;
  if (!job.counts.empty() && !is_small_gather(job)) return post_rooted(running, piece);
  const std::int64_t at = piece * piece_length(call);
  const int n = static_cast<int>(std::min(piece_length(call), call.count - at));
  const std::string what = describe(call);
  MPI_Request request = MPI_REQUEST_NULL;
  if (call.kind == CollectiveKind::barrier) {
    check_mpi(MPI_Ibarrier(comm_, &request), what.c_str());
  } else if (call.kind == CollectiveKind::all_reduce) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, shifted(job.receive, at, call.type), n, mpi_type(call.type), operations_(call.reduce, call.type), comm_, &request),
              what.c_str());
  } else if (call.kind == CollectiveKind::broadcast) {
    check_mpi(MPI_Ibcast(shifted(job.receive, at, call.type), n, mpi_type(call.type), call.root, comm_, &request), what.c_str());
  } else {  // a small all_gather
    const bool in_place = job.send == shifted(job.receive, rank_ * call.count, call.type);
    check_mpi(MPI_Iallgather(in_place ? MPI_IN_PLACE : job.send, n, mpi_type(call.type), job.receive, n, mpi_type(call.type), comm_, &request), what.c_str());
  }
  add_request(running, request);
}

// all_gather: every rank broadcasts its block. reduce_scatter: every rank is the root of a reduction. All of them at once
// send no byte more than a ring does, at any sizes.
void MpiEngine::post_rooted(Running& running, std::int64_t piece) {
  const MpiJob& job = running.job;
  const CollectiveCall& call = job.call;
  const RootedPiece p = rooted_piece(job, piece);
  const int n = static_cast<int>(p.count);
  const std::string what = describe(call);
  MPI_Request request = MPI_REQUEST_NULL;
  if (call.kind == CollectiveKind::reduce_scatter) {
    const char* send = shifted(job.send, p.block + p.at, call.type);
    char* receive = p.root == rank_ ? shifted(job.receive, p.at, call.type) : nullptr;
    check_mpi(MPI_Ireduce(send == receive ? MPI_IN_PLACE : send, receive, n, mpi_type(call.type), operations_(call.reduce, call.type), p.root, comm_, &request),
              what.c_str());
  } else {
    char* block = shifted(job.receive, p.block + p.at, call.type);
    const char* mine = p.root == rank_ ? shifted(job.send, p.at, call.type) : block;
    if (mine != block) std::memcpy(block, mine, static_cast<std::size_t>(p.count) * size_of(call.type));
    check_mpi(MPI_Ibcast(block, n, mpi_type(call.type), p.root, comm_, &request), what.c_str());
  }
  add_request(running, request);
}

void MpiEngine::add_request(Running& running, MPI_Request request) {
  requests_.push_back(request);
  owners_.push_back(&running);
  ++running.open;
}

bool MpiEngine::test() {
  if (running_.empty()) return false;
  int finished = 0;
  int indices[kOpen + 1];
  const auto start = std::chrono::steady_clock::now();
  if (!requests_.empty())
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &finished, indices, MPI_STATUSES_IGNORE),
              describe(running_.front().job.call).c_str());
  const bool busy = std::chrono::steady_clock::now() - start > kBusy;
  std::sort(indices, indices + finished, std::greater<>());
  for (int i = 0; i < finished; ++i) {
    Running& owner = *owners_[static_cast<std::size_t>(indices[i])];
    --owner.open;
    requests_.erase(requests_.begin() + indices[i]);
    owners_.erase(owners_.begin() + indices[i]);
    if (owner.comparing) finish_compared(owner);
  }
  while (!running_.empty()) {
    Running& first = running_.front();
    const bool over = failure_ ? first.open == 0 : first.entered && !first.comparing && first.posted == first.pieces && first.open == 0;
    if (!over) break;
    first.ticket->finish(failure_);
    running_.pop_front();
    finished = 1;
  }
  return busy || finished > 0;
}

void MpiEngine::finish_compared(Running& running) {
  running.comparing = false;
  if (const auto mismatch = find_mismatch(running.calls, hosts()))
    failure_ = std::make_exception_ptr(Error(ExitCode::peer, *mismatch + "; this is an error of the program", true));
}

void MpiEngine::check_deadline() {
  if (running_.empty() || !running_.front().entered) return;
  Running& first = running_.front();
  const double waited = clock_ - first.since;
  if (waited < first.job.timeout) return;
  std::vector<std::optional<CollectiveCall>> entered;
  for (const auto& peer : peers_.ask(state(), kPatience)) entered.push_back(peer ? std::optional(peer->entered) : std::nullopt);
  const std::string sentence = name_missing(first.job.call, waited, rank_, entered, hosts());
  if (!sentence.empty()) peers_.leave(sentence);
  // Everybody is here and answers: only slow. Once more the same time.
  if (first.extended)
    peers_.leave(fmt::format("rank {} on {} waited {:.0f} s for {}, which all ranks have entered but which does not end; check the network, or raise --parallel.timeout",
                             rank_, hosts()[static_cast<std::size_t>(rank_)], waited + first.job.timeout, describe(first.job.call)));
  first.extended = true;
  first.since = clock_;
}

MpiPeers::State MpiEngine::state() {
  const std::lock_guard lock(mutex_);
  return {last_entered_, noted_};
}

void MpiEngine::note(const CollectiveCall& entered) {
  const std::lock_guard lock(mutex_);
  noted_ = entered;
}

MpiEngine::Noted MpiEngine::ask_noted() {
  std::future<Noted> answer;
  {
    const std::lock_guard lock(mutex_);
    answer = questions_.emplace_back().get_future();
    news_ = true;
  }
  wake_.notify_one();
  return answer.get();
}

void MpiEngine::answer_questions() {
  std::vector<std::promise<Noted>> questions;
  {
    const std::lock_guard lock(mutex_);
    questions.swap(questions_);
  }
  if (questions.empty()) return;
  Noted noted;
  for (const auto& peer : peers_.ask(state(), kPatience)) noted.push_back(peer ? std::optional(peer->noted) : std::nullopt);
  for (auto& question : questions) question.set_value(noted);
}

// Nothing under way: sleeps until something is queued. Somebody waits: polls, then naps that grow with the wait. Nobody
// waits: the caller computes, and the engine takes as little of its core as keeps data moving.
void MpiEngine::pause(bool moved) {
  const auto quiet = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - last_moved_);
  if (running_.empty()) {
    if (quiet > kSpin) nap(milliseconds(100));
  } else if (!moved && (quiet > kSpin || waiting_.load(std::memory_order_relaxed) == 0)) {
    nap(std::clamp(quiet / 16, waiting_.load(std::memory_order_relaxed) > 0 ? microseconds(10) : microseconds(100), kLongestNap));
  }
}

void MpiEngine::nap(microseconds length) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, length, [this] { return news_.load(std::memory_order_relaxed); });
}

}  // namespace gpuhpc
