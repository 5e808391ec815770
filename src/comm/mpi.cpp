#include "gpuhpc/comm/mpi.hpp"

#include <mpi.h>

#include <cstdlib>

#include "gpuhpc/base/error.hpp"
#include "mpi_engine.hpp"
#include "mpi_types.hpp"
#include "start_deadline.hpp"

namespace gpuhpc {
namespace {

class MpiWork final : public Work {
 public:
  MpiWork(MpiEngine& engine, std::shared_ptr<Ticket> ticket)
      : engine_(engine), ticket_(std::move(ticket)) {}
  ~MpiWork() override {
    try {
      if (!waited_) engine_.wait(*ticket_);
    } catch (const Error&) {  // whoever waits next throws it again
    }
  }
  void wait() override {
    waited_ = true;
    engine_.wait(*ticket_);
  }

 private:
  MpiEngine& engine_;
  std::shared_ptr<Ticket> ticket_;
  bool waited_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm parent, const ParallelOptions& options)
      : engine_(parent), options_(options) {
    MPI_Comm_rank(parent, &rank_);
    MPI_Comm_size(parent, &size_);
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    MPI_Comm_rank(node, &node_rank_);
    MPI_Comm_size(node, &node_size_);
    MPI_Comm_free(&node);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_rank() const override { return node_rank_; }
  int node_size() const override { return node_size_; }
  std::string host() const override { return engine_.hosts()[static_cast<std::size_t>(rank_)]; }
  void configure(const ParallelOptions& options) override { options_ = options; }
  PeerBoard* peer_board() override { return &engine_; }

  void barrier() override { wait(submit({.kind = CollectiveKind::barrier}, nullptr, nullptr)); }
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    wait(reduce_all(data, count, type, reduce));
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    wait(submit({.kind = CollectiveKind::broadcast, .type = type, .root = root, .count = count},
                nullptr, data));
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    wait(gather(send, count, type, receive));
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    std::int64_t total = 0;
    for (const auto n : counts) total += n;
    if (std::ssize(counts) != size_ || counts[static_cast<std::size_t>(rank_)] != count)
      throw internal_error("all_gather_ragged: counts do not fit {} elements of rank {} of {}",
                           count, rank_, size_);
    wait(submit({.kind = CollectiveKind::all_gather_ragged, .type = type, .count = total}, send,
                receive, {counts.begin(), counts.end()}));
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    wait(scatter(send, receive, count, type, reduce));
  }

  std::unique_ptr<Work> start_all_reduce(void* data, std::int64_t count, DataType type,
                                         Reduce reduce) override {
    return std::make_unique<MpiWork>(engine_, reduce_all(data, count, type, reduce));
  }
  std::unique_ptr<Work> start_reduce_scatter(const void* send, void* receive, std::int64_t count,
                                             DataType type, Reduce reduce) override {
    return std::make_unique<MpiWork>(engine_, scatter(send, receive, count, type, reduce));
  }
  std::unique_ptr<Work> start_all_gather(const void* send, std::int64_t count, DataType type,
                                         void* receive) override {
    return std::make_unique<MpiWork>(engine_, gather(send, count, type, receive));
  }

 private:
  using TicketPointer = std::shared_ptr<Ticket>;
  TicketPointer submit(const CollectiveCall& call, const void* send, void* receive,
                       std::vector<std::int64_t> counts = {}) {
    return engine_.submit({call, send, receive, std::move(counts),
                           static_cast<double>(options_.timeout), options_.check_collectives});
  }
  void wait(const TicketPointer& ticket) { engine_.wait(*ticket); }
  TicketPointer reduce_all(void* data, std::int64_t count, DataType type, Reduce reduce) {
    return submit(
        {.kind = CollectiveKind::all_reduce, .type = type, .reduce = reduce, .count = count},
        nullptr, data);
  }
  TicketPointer gather(const void* send, std::int64_t count, DataType type, void* receive) {
    return submit({.kind = CollectiveKind::all_gather, .type = type, .count = count}, send, receive,
                  equal_counts(count));
  }
  TicketPointer scatter(const void* send, void* receive, std::int64_t count, DataType type,
                        Reduce reduce) {
    return submit(
        {.kind = CollectiveKind::reduce_scatter, .type = type, .reduce = reduce, .count = count},
        send, receive, equal_counts(count));
  }
  std::vector<std::int64_t> equal_counts(std::int64_t count) const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(size_), count);
  }

  MpiEngine engine_;
  ParallelOptions options_;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
};

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  // Alone (no launcher) Open MPI would look for a daemon, or in a step of Slurm (srun -n1) for
  // Slurm's; this keeps a single process self-contained.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && std::getenv("PMIX_RANK") == nullptr) {
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    unsetenv("SLURM_STEPID");
    unsetenv("SLURM_STEP_ID");
  }
  const StartDeadline deadline(StartDeadline::limit());
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::unique_ptr<Communicator> MpiSession::world(const ParallelOptions& options) {
  int size = 1, threads = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return make_single_communicator();
  MPI_Query_thread(&threads);
  if (threads < MPI_THREAD_MULTIPLE)
    throw configuration_error(
        "this MPI library has no MPI_THREAD_MULTIPLE, which several ranks need; use Open MPI 4.1 "
        "as Debian builds it");
  const StartDeadline deadline(StartDeadline::limit());  // the first messages between the hosts
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, options);
}

void MpiSession::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);
}

}  // namespace gpuhpc
