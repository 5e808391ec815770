#include "mpi_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

enum Tag : int { kAsk = 1, kAnswer, kLeaving };

}  // namespace

MpiPeers::MpiPeers(MPI_Comm parent) {
  check_mpi(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  int size = 1, length = 0;
  MPI_Comm_size(comm_, &size);
  char mine[MPI_MAX_PROCESSOR_NAME] = {};
  MPI_Get_processor_name(mine, &length);
  std::vector<char> all(static_cast<std::size_t>(size) * sizeof(mine));
  check_mpi(MPI_Allgather(mine, sizeof(mine), MPI_CHAR, all.data(), sizeof(mine), MPI_CHAR, comm_),
            "gathering host names");
  for (int r = 0; r < size; ++r)
    hosts_.emplace_back(all.data() + static_cast<std::size_t>(r) * sizeof(mine));
}

MpiPeers::~MpiPeers() {
  forget_sent();
  MPI_Comm_free(&comm_);
}

void MpiPeers::send(int peer, int tag, const Message& message) {
  Outgoing& outgoing = sent_.emplace_back(Outgoing{message});
  if (MPI_Isend(&outgoing.message, sizeof(Message), MPI_BYTE, peer, tag, comm_,
                &outgoing.request) != MPI_SUCCESS)
    sent_.pop_back();
}

void MpiPeers::forget_sent() {
  while (!sent_.empty()) {
    int done = 0;
    if (MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) return;
    sent_.pop_front();
  }
}

void MpiPeers::serve(const State& mine) {
  for (;;) {
    int waiting = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &waiting, &status) != MPI_SUCCESS ||
        !waiting)
      break;
    Message message;
    if (MPI_Recv(&message, sizeof(Message), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
      break;
    if (status.MPI_TAG == kAsk) send(status.MPI_SOURCE, kAnswer, {mine, {}});
    if (status.MPI_TAG == kAnswer && !answers_.empty())
      answers_[static_cast<std::size_t>(status.MPI_SOURCE)] = message.state;
    if (status.MPI_TAG == kLeaving) {
      fmt::print(stderr, "gpuhpc: rank {} on {} leaves too: {}\n", rank_,
                 hosts_[static_cast<std::size_t>(rank_)], message.sentence);
      std::fflush(stderr);
      std::_Exit(static_cast<int>(ExitCode::peer));
    }
  }
  forget_sent();
}

std::vector<std::optional<MpiPeers::State>> MpiPeers::ask(const State& mine, double patience) {
  answers_.assign(hosts_.size(), std::nullopt);
  answers_[static_cast<std::size_t>(rank_)] = mine;
  for (int peer = 0; peer < std::ssize(hosts_); ++peer)
    if (peer != rank_) send(peer, kAsk, {mine, {}});
  const auto start = std::chrono::steady_clock::now();
  const auto complete = [this] {
    return std::ranges::all_of(answers_, [](const auto& answer) { return answer.has_value(); });
  };
  while (!complete() &&
         std::chrono::steady_clock::now() - start < std::chrono::duration<double>(patience)) {
    serve(mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::exchange(answers_, {});
}

void MpiPeers::leave(const std::string& sentence) {
  fmt::print(stderr, "gpuhpc: {}; all ranks leave\n", sentence);
  std::fflush(stderr);
  Message message;
  sentence.copy(message.sentence, sizeof(message.sentence) - 1);
  for (int peer = 0; peer < std::ssize(hosts_); ++peer)
    if (peer != rank_) send(peer, kLeaving, message);
  // Time for the messages to go out: the launcher ends everybody as soon as one process leaves.
  for (int i = 0; i < 250 && !sent_.empty(); ++i) {
    forget_sent();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::_Exit(static_cast<int>(ExitCode::peer));
}

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::peer, fmt::format("{} failed: {}", what, text));
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::bfloat16:
    case DataType::float16:
      return MPI_UINT16_T;
  }
  throw internal_error("unknown wire type");
}

}  // namespace gpuhpc
