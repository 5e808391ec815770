#pragma once
// One piece of a reduction or a gathering, sent straight from each rank to each: every rank adds up
// the elements it owns, in rank order, and hands the sums to the others. All links are used both
// ways at once, no byte travels more than in a ring, 16-bit floats are rounded once, and all ranks
// get the same bits, whatever the size of the piece. (Open MPI's own nonblocking all_reduce in
// place is a reduction tree and a broadcast tree: twice the bytes in a row.)
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "gpuhpc/comm/collective.hpp"

namespace gpuhpc {

struct MpiJob {
  CollectiveCall call;
  const void* send = nullptr;
  void* receive = nullptr;
  std::vector<std::int64_t> counts;  // elements of each rank's block: gatherings and reduce_scatter
  double timeout = 0;                // seconds
  bool check = false;                // compare the calls of all ranks first
};

// Receive buffers, kept for the next piece: fresh memory costs more than the sums.
class ScratchPool {
 public:
  using Buffer = std::unique_ptr<char[]>;
  Buffer take();  // of kPieceBytes
  void give(Buffer buffer) {
    if (buffer) free_.push_back(std::move(buffer));
  }

 private:
  std::vector<Buffer> free_;
};

constexpr std::int64_t kPieceBytes = 1 << 20;

// How many pieces a job is cut into.
std::int64_t count_pieces(const MpiJob& job);

class MpiExchange {
 public:
  // `piece` of `job`, which must outlive this. `tag` and tag + 1 are its own among the pieces under
  // way.
  MpiExchange(const MpiJob& job, std::int64_t piece, MPI_Comm comm, int tag, ScratchPool& pool);
  void start(std::vector<MPI_Request>& requests);
  // When all requests have ended: adds up and posts the next ones; false when the piece is done.
  bool advance(std::vector<MPI_Request>& requests);

 private:
  struct Block {
    std::int64_t at = 0, count = 0;  // elements of the whole buffer
  };
  enum class Step { reduce, gather, done };
  void cut(std::int64_t piece);
  void send_parts(std::vector<MPI_Request>& requests);
  void add_up();
  void send_mine(std::vector<MPI_Request>& requests);

  const MpiJob& job_;
  MPI_Comm comm_;
  int tag_, rank_ = 0, size_ = 1;
  ScratchPool& pool_;
  ScratchPool::Buffer scratch_;
  std::vector<Block> blocks_;  // one per rank: what it owns of this piece
  std::int64_t offset_ = 0;    // of this piece in the rank's own buffer (the shorter one)
  bool whole_ = false;         // so small that every rank adds up everything: one step less
  Step step_ = Step::done;
};

}  // namespace gpuhpc
