#pragma once
// The side channel of a communicator: small messages between engine threads, beside all
// collectives. It tells a dead or frozen rank (no answer) from one that is busy elsewhere (answers
// with the last collective it entered).
#include <mpi.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/comm/collective.hpp"
#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Used by one thread at a time.
class MpiPeers {
 public:
  explicit MpiPeers(MPI_Comm parent);  // collective
  ~MpiPeers();
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;

  const std::vector<std::string>& hosts() const { return hosts_; }  // one per rank
  // What a rank answers: the last collective that it entered here, and on a communicator built on
  // this one.
  struct State {
    CollectiveCall entered, noted;
  };
  // Answers whoever asks; leaves the program when a peer says that it leaves.
  void serve(const State& mine);
  // The state of every rank; nothing for a rank that has not answered after `patience` seconds.
  std::vector<std::optional<State>> ask(const State& mine, double patience);
  // Prints the sentence, tells all peers and ends this process with exit code 79. Nothing is
  // unwound: a lost peer would hold up whoever waits for it again.
  [[noreturn]] void leave(const std::string& sentence);

 private:
  struct Message {  // as it travels
    State state;
    char sentence[1024] = {};
  };
  struct Outgoing {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void send(int peer, int tag, const Message& message);
  void forget_sent();

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<std::string> hosts_;
  std::deque<Outgoing> sent_;
  std::vector<std::optional<State>> answers_;
};

// Our types and errors beside MPI's.

// Throws peer for anything but MPI_SUCCESS.
void check_mpi(int code, const char* what);

MPI_Datatype mpi_type(DataType type);

}  // namespace gpuhpc
