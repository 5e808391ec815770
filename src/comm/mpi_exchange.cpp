#include "mpi_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "gpuhpc/comm/reduce.hpp"
#include "mpi_peers.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t kWholeBytes = 2048;

std::int64_t width_of(const CollectiveCall& call) {
  return static_cast<std::int64_t>(size_of(call.type));
}
// Elements of a piece: of the whole buffer where it is cut as a whole, else of each rank's block.
std::int64_t piece_length(const MpiJob& job) {
  const std::int64_t length = kPieceBytes / width_of(job.call);
  return job.counts.empty() ? length : std::max<std::int64_t>(1, length / std::ssize(job.counts));
}
const char* shifted(const void* data, std::int64_t elements, const CollectiveCall& call) {
  return static_cast<const char*>(data) + elements * width_of(call);
}
char* shifted(void* data, std::int64_t elements, const CollectiveCall& call) {
  return static_cast<char*>(data) + elements * width_of(call);
}

}  // namespace

ScratchPool::Buffer ScratchPool::take() {
  if (free_.empty()) return Buffer(new char[kPieceBytes]);
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

std::int64_t count_pieces(const MpiJob& job) {
  if (job.call.kind == CollectiveKind::barrier) return 1;
  const std::int64_t longest = job.counts.empty() ? job.call.count
                                                  : *std::ranges::max_element(job.counts),
                     length = piece_length(job);
  return (longest + length - 1) / length;
}

MpiExchange::MpiExchange(const MpiJob& job, std::int64_t piece, MPI_Comm comm, int tag,
                         ScratchPool& pool)
    : job_(job), comm_(comm), tag_(tag), pool_(pool) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  cut(piece);
}

void MpiExchange::cut(std::int64_t piece) {
  const std::int64_t length = piece_length(job_), first = piece * length;
  if (job_.counts.empty()) {  // all_reduce: equal shares of this piece
    const std::int64_t n = std::min(length, job_.call.count - first);
    // Of all ranks it must fit the scratch of a piece.
    whole_ = n * width_of(job_.call) <= std::min<std::int64_t>(kWholeBytes, kPieceBytes / size_);
    for (int r = 0; r < size_; ++r) {
      const std::int64_t share = n * r / size_;
      blocks_.push_back(whole_ ? Block{first, n}
                               : Block{first + share, n * (r + 1) / size_ - share});
    }
    offset_ = blocks_[static_cast<std::size_t>(rank_)].at;
    return;
  }
  std::int64_t block = 0;
  for (const std::int64_t count : job_.counts) {
    blocks_.push_back({block + first, std::clamp<std::int64_t>(count - first, 0, length)});
    block += count;
  }
  offset_ = first;
}

void MpiExchange::start(std::vector<MPI_Request>& requests) {
  const bool gathers = job_.call.kind == CollectiveKind::all_gather ||
                       job_.call.kind == CollectiveKind::all_gather_ragged;
  step_ = gathers ? Step::gather : Step::reduce;
  if (gathers)
    send_mine(requests);
  else
    send_parts(requests);
}

bool MpiExchange::advance(std::vector<MPI_Request>& requests) {
  requests.clear();
  if (step_ == Step::reduce) {
    add_up();
    pool_.give(std::move(scratch_));
    if (job_.call.kind == CollectiveKind::all_reduce && !whole_) {
      step_ = Step::gather;
      send_mine(requests);
      return true;
    }
  }
  step_ = Step::done;
  return false;
}

// To every rank its block of my elements; from every rank my block of its elements.
void MpiExchange::send_parts(std::vector<MPI_Request>& requests) {
  const void* source = job_.call.kind == CollectiveKind::all_reduce ? job_.receive : job_.send;
  const int mine = static_cast<int>(blocks_[static_cast<std::size_t>(rank_)].count);
  scratch_ = pool_.take();
  std::int64_t row = 0;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || mine == 0) continue;
    check_mpi(MPI_Irecv(shifted(scratch_.get(), row, job_.call), mine, mpi_type(job_.call.type), r,
                        tag_, comm_, &requests.emplace_back()),
              "receiving");
    row += mine;
  }
  for (int step = 1; step < size_;
       ++step) {  // each begins with its neighbour: nobody is everybody's first
    const int r = (rank_ + step) % size_;
    const Block& theirs = blocks_[static_cast<std::size_t>(r)];
    if (theirs.count == 0) continue;
    check_mpi(MPI_Isend(shifted(source, theirs.at, job_.call), static_cast<int>(theirs.count),
                        mpi_type(job_.call.type), r, tag_, comm_, &requests.emplace_back()),
              "sending");
  }
}

void MpiExchange::add_up() {
  const bool all = job_.call.kind == CollectiveKind::all_reduce;
  const Block& mine = blocks_[static_cast<std::size_t>(rank_)];
  std::vector<const void*> rows;
  std::int64_t row = 0;
  for (int r = 0; r < size_; ++r) {
    rows.push_back(r == rank_ ? shifted(all ? job_.receive : job_.send, mine.at, job_.call)
                              : shifted(scratch_.get(), row, job_.call));
    if (r != rank_) row += mine.count;
  }
  reduce_rows(rows, shifted(job_.receive, offset_, job_.call), mine.count, job_.call.type,
              job_.call.reduce);
}

// My block to every rank; from every rank its block.
void MpiExchange::send_mine(std::vector<MPI_Request>& requests) {
  const Block& mine = blocks_[static_cast<std::size_t>(rank_)];
  char* place = shifted(job_.receive, mine.at, job_.call);
  const char* source =
      job_.call.kind == CollectiveKind::all_reduce ? place : shifted(job_.send, offset_, job_.call);
  if (source != place && mine.count > 0)
    std::memcpy(place, source, static_cast<std::size_t>(mine.count * width_of(job_.call)));
  for (int r = 0; r < size_; ++r) {
    const Block& theirs = blocks_[static_cast<std::size_t>(r)];
    if (r == rank_ || theirs.count == 0) continue;
    check_mpi(MPI_Irecv(shifted(job_.receive, theirs.at, job_.call), static_cast<int>(theirs.count),
                        mpi_type(job_.call.type), r, tag_ + 1, comm_, &requests.emplace_back()),
              "receiving");
  }
  for (int step = 1; step < size_ && mine.count > 0; ++step)
    check_mpi(MPI_Isend(place, static_cast<int>(mine.count), mpi_type(job_.call.type),
                        (rank_ + step) % size_, tag_ + 1, comm_, &requests.emplace_back()),
              "sending");
}

}  // namespace gpuhpc
