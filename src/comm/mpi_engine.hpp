#pragma once
// The thread that makes all MPI calls of one communicator. Callers queue collectives; the engine
// starts them in order as nonblocking MPI collectives, drives them beside the callers' work, and
// watches their deadlines.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpuhpc/comm/collective.hpp"
#include "mpi_exchange.hpp"
#include "mpi_peers.hpp"

namespace gpuhpc {

// What a caller holds of its collective.
class Ticket {
 public:
  void wait();  // throws the collective's failure
  void finish(std::exception_ptr failure);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr failure_;
};

class MpiEngine final : public PeerBoard {
 public:
  explicit MpiEngine(MPI_Comm parent);  // collective
  ~MpiEngine() override;                // after all collectives have ended
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  std::shared_ptr<Ticket> submit(MpiJob job);  // numbers the call
  void wait(Ticket& ticket);                   // the engine hurries while somebody waits
  const std::vector<std::string>& hosts() const override { return peers_.hosts(); }
  void note(const CollectiveCall& entered) override;
  std::vector<std::optional<CollectiveCall>> ask_noted() override;

 private:
  struct Running {
    MpiJob job;
    std::shared_ptr<Ticket> ticket;
    bool entered = false, comparing = false, extended = false;
    double since = 0;  // of clock_
    std::int64_t pieces = 0, posted = 0, ended = 0;
    std::vector<CollectiveCall> calls;  // of all ranks, when they are compared
  };

  // A piece of a collective, or the comparison before one, under way.
  struct Piece {
    Running* owner = nullptr;
    std::vector<MPI_Request> requests;
    std::optional<MpiExchange> exchange;
  };

  void run();
  bool take();  // the queue's jobs; false: the communicator ends and nothing is left
  void post();  // as many pieces as may travel at once
  bool test();  // true: something moved
  void enter(Running& running);
  void post_piece(Running& running, std::int64_t piece);
  bool advance(Piece& piece);  // false: it has ended
  void finish_compared(Running& running);
  void finish_jobs();
  void check_deadline();
  void answer_questions();
  MpiPeers::State state();
  void pause(bool moved);
  void nap(std::chrono::microseconds length);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  MpiPeers peers_;

  // Of the engine's thread.
  using Time = std::chrono::steady_clock::time_point;
  std::deque<Running> running_;  // in order of their numbers
  std::list<Piece> pieces_;
  ScratchPool scratch_;
  int tag_ = 0;  // of the next piece
  CollectiveCall last_entered_;
  std::exception_ptr failure_;  // of a comparison: nothing is started any more
  // seconds that this process was awake: being stopped and continued costs nobody's deadline
  double clock_ = 0;
  Time last_turn_, last_moved_, last_served_;

  // Shared.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Running> queue_;
  std::uint64_t sequence_ = 0;
  CollectiveCall noted_;
  using Noted = std::vector<std::optional<CollectiveCall>>;
  std::vector<std::promise<Noted>> questions_;
  bool ending_ = false;
  std::atomic<int> waiting_ = 0;
  std::atomic<bool> news_ = false;  // something above changed
  std::thread thread_;
};

}  // namespace gpuhpc
