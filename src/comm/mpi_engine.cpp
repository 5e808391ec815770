#include "mpi_engine.hpp"

#include <sys/prctl.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "mpi_peers.hpp"

namespace gpuhpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kOpen = 16;         // pieces under way at once
constexpr auto kBusy = microseconds(10);  // a poll that took this long moved data
constexpr auto kSpin = microseconds(60);  // polling without naps while somebody waits
constexpr auto kLongestNap = microseconds(2000);
constexpr auto kServe = milliseconds(50);  // how often peers' questions are looked for
constexpr double kPatience = 4;            // seconds a peer has for its answer

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
      const std::string hint =
          "; if no rank died, the ranks may have called different collectives: "
          "--parallel.check-collectives true will tell";
      peers_.leave(fmt::format("rank {} on {}: {}{}", rank_,
                               hosts()[static_cast<std::size_t>(rank_)], e.what(), hint));
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
  Piece& piece = pieces_.emplace_back(Piece{&running, {}, {}});
  check_mpi(
      MPI_Iallgather(&running.job.call, sizeof(CollectiveCall), MPI_BYTE, running.calls.data(),
                     sizeof(CollectiveCall), MPI_BYTE, comm_, &piece.requests.emplace_back()),
      "comparing collectives");
}

void MpiEngine::post() {
  for (Running& running : running_) {
    if (failure_) return;
    if (!running.entered) enter(running);
    if (running.comparing) return;  // the next ones wait, too: their order is what is being checked
    while (running.posted < running.pieces) {
      if (pieces_.size() >= kOpen) return;
      post_piece(running, running.posted++);
    }
  }
}

void MpiEngine::post_piece(Running& running, std::int64_t number) {
  const CollectiveCall& call = running.job.call;
  Piece& piece = pieces_.emplace_back(Piece{&running, {}, {}});
  tag_ = (tag_ + 2) % 16384;  // every rank posts the same pieces in the same order
  if (call.kind == CollectiveKind::barrier) {
    check_mpi(MPI_Ibarrier(comm_, &piece.requests.emplace_back()), "barrier");
  } else if (call.kind == CollectiveKind::broadcast) {
    const auto width = static_cast<std::int64_t>(size_of(call.type)), length = kPieceBytes / width,
               at = number * length;
    check_mpi(MPI_Ibcast(static_cast<char*>(running.job.receive) + at * width,
                         static_cast<int>(std::min(length, call.count - at)), mpi_type(call.type),
                         call.root, comm_, &piece.requests.emplace_back()),
              "broadcast");
  } else {
    piece.exchange.emplace(running.job, number, comm_, tag_, scratch_);
    piece.exchange->start(piece.requests);
  }
}

bool MpiEngine::test() {
  const auto start = std::chrono::steady_clock::now();
  bool moved = false;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    int done = 0;
    const CollectiveCall& call = piece->owner->job.call;
    const int result = MPI_Testall(static_cast<int>(piece->requests.size()), piece->requests.data(),
                                   &done, MPI_STATUSES_IGNORE);
    if (result != MPI_SUCCESS) check_mpi(result, describe(call).c_str());
    moved = moved || done != 0;
    if (done && !advance(*piece))
      piece = pieces_.erase(piece);
    else
      ++piece;
  }
  finish_jobs();
  return moved || std::chrono::steady_clock::now() - start > kBusy;
}

bool MpiEngine::advance(Piece& piece) {
  if (piece.exchange && piece.exchange->advance(piece.requests)) return true;
  Running& owner = *piece.owner;
  if (owner.comparing)
    finish_compared(owner);
  else
    ++owner.ended;
  return false;
}

void MpiEngine::finish_jobs() {
  while (!running_.empty()) {
    const Running& first = running_.front();
    const bool over = failure_ ? first.ended == first.posted
                               : first.entered && !first.comparing && first.ended == first.pieces;
    if (!over) return;
    first.ticket->finish(failure_);
    running_.pop_front();
  }
}

void MpiEngine::finish_compared(Running& running) {
  running.comparing = false;
  if (const auto mismatch = find_mismatch(running.calls, hosts()))
    failure_ = std::make_exception_ptr(
        Error(ExitCode::peer, *mismatch + "; this is a bug in gpuhpc", true));
}

void MpiEngine::check_deadline() {
  if (running_.empty() || !running_.front().entered) return;
  Running& first = running_.front();
  const double waited = clock_ - first.since;
  if (waited < first.job.timeout) return;
  std::vector<std::optional<CollectiveCall>> entered;
  for (const auto& peer : peers_.ask(state(), kPatience))
    entered.push_back(peer ? std::optional(peer->entered) : std::nullopt);
  const std::string sentence = name_missing(first.job.call, waited, rank_, entered, hosts());
  if (!sentence.empty()) peers_.leave(sentence);
  // Everybody is here and answers: only slow. Once more the same time.
  if (first.extended)
    peers_.leave(
        fmt::format("rank {} on {} waited {:.0f} s for {}, which all ranks have entered but which "
                    "does not end; check the network, or raise --parallel.timeout",
                    rank_, hosts()[static_cast<std::size_t>(rank_)], waited + first.job.timeout,
                    describe(first.job.call)));
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
  for (const auto& peer : peers_.ask(state(), kPatience))
    noted.push_back(peer ? std::optional(peer->noted) : std::nullopt);
  for (auto& question : questions) question.set_value(noted);
}

// Nothing under way: sleeps until something is queued. Somebody waits: polls, then naps that grow
// with the wait. Nobody waits: the caller computes, and the engine takes as little of its core as
// keeps data moving.
void MpiEngine::pause(bool moved) {
  const auto quiet =
      std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - last_moved_);
  if (running_.empty()) {
    if (quiet > kSpin) nap(milliseconds(100));
  } else if (!moved && (quiet > kSpin || waiting_.load(std::memory_order_relaxed) == 0)) {
    nap(std::clamp(
        quiet / 16,
        waiting_.load(std::memory_order_relaxed) > 0 ? microseconds(10) : microseconds(100),
        kLongestNap));
  }
}

void MpiEngine::nap(microseconds length) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, length, [this] { return news_.load(std::memory_order_relaxed); });
}

}  // namespace gpuhpc
