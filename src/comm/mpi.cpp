#include "gpuhpc/comm/mpi.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "mpi_engine.hpp"
#include "mpi_peers.hpp"

namespace gpuhpc {
namespace {

// Where MPI itself would wait for ever: ends this process with a sentence and an exit code unless
// it is destroyed within `limit`.
class Deadline {
 public:
  Deadline(std::chrono::seconds limit, int code, std::string sentence);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool done_ = false;
  std::thread thread_;
};

Deadline::Deadline(std::chrono::seconds limit, int code, std::string sentence) {
  thread_ = std::thread([this, limit, code, sentence = std::move(sentence)] {
    std::unique_lock lock(mutex_);
    if (met_.wait_for(lock, limit, [this] { return done_; })) return;
    fmt::print(stderr, "gpuhpc: {}\n", sentence);
    std::fflush(stderr);
    std::_Exit(code);
  });
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  met_.notify_one();
  thread_.join();
}

// GPUHPC_START_SECONDS, or 300: options are read later.
std::chrono::seconds start_limit() {
  const char* given = std::getenv("GPUHPC_START_SECONDS");
  const int seconds = given != nullptr ? std::atoi(given) : 0;
  return std::chrono::seconds(seconds > 0 ? seconds : 300);
}

// Until the communicator stands.
Deadline start_deadline() {
  const std::chrono::seconds limit = start_limit();
  return {limit, static_cast<int>(ExitCode::peer),
          fmt::format(
              "MPI did not start within {} s: a rank of this launch has not come up, or the hosts "
              "do not reach each other; look for it in the launcher's output, and name the right "
              "network with OMPI_MCA_btl_tcp_if_include where hosts have several",
              limit.count())};
}

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

// Where a rank stands, in the launch and on its host. Collective.
struct Place {
  explicit Place(MPI_Comm comm) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
  }

  int rank = 0, size = 1, node_rank = 0, node_size = 1;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm parent, const ParallelOptions& options)
      : place_(parent), engine_(parent), options_(options) {}

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  int node_rank() const override { return place_.node_rank; }
  int node_size() const override { return place_.node_size; }
  std::string host() const override { return engine_.hosts()[static_cast<std::size_t>(rank())]; }
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
    if (std::ssize(counts) != size() || counts[static_cast<std::size_t>(rank())] != count)
      throw internal_error("all_gather_ragged: counts do not fit {} elements of rank {} of {}",
                           count, rank(), size());
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
    return std::vector<std::int64_t>(static_cast<std::size_t>(size()), count);
  }

  // Before the engine's thread calls MPI, too.
  Place place_;
  MpiEngine engine_;
  ParallelOptions options_;
};

}  // namespace

namespace {

// By mpirun, or by srun --mpi=pmix.
bool launched(const Environment& environment) {
  return environment("OMPI_COMM_WORLD_SIZE") != nullptr || environment("PMIX_RANK") != nullptr;
}

bool started() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace

MpiSession::MpiSession() {
  if (!launched(std::getenv)) return;
  const Deadline deadline = start_deadline();
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
}

MpiSession::~MpiSession() { finish(static_cast<int>(ExitCode::peer)); }

int MpiSession::finish(int code) {
  if (!started()) return code;
  // Until the slowest rank has done its work, which may take as long as it likes.
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::chrono::seconds limit = std::min(start_limit(), std::chrono::seconds(60));
  const Deadline deadline(
      limit, code,
      fmt::format("MPI did not end within {} s of the last rank's work, which is whole: left as is",
                  limit.count()));
  MPI_Finalize();
  return code;
}

std::unique_ptr<Communicator> MpiSession::world(const ParallelOptions& options) {
  int size = 1, threads = 0;
  if (started()) MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return make_single_communicator();
  MPI_Query_thread(&threads);
  if (threads < MPI_THREAD_MULTIPLE)
    throw configuration_error(
        "this MPI library has no MPI_THREAD_MULTIPLE, which several ranks need; use Open MPI 4.1 "
        "as Debian builds it");
  const Deadline deadline = start_deadline();  // the first messages between the hosts
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, options);
}

void MpiSession::abort(int code) {
  if (started()) MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);
}

namespace {

void check_temporary_folder(const Environment& environment) {
  const char* folder = environment("TMPDIR");
  if (folder == nullptr) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // as MPI does
  if (::access(folder, W_OK | X_OK) != 0)
    throw configuration_error(
        "TMPDIR is {}, and MPI cannot keep temporary files there ({}); name a folder that may be "
        "written to, or unset TMPDIR",
        folder, std::strerror(errno));
}

// Slurm (21.08 to 25.05) runs PMIx's barriers as a tree, and where a job has fewer nodes than
// TreeWidth each node is a root that waits for nobody: MPI_Init lets a rank go whose first message
// meets a rank that has no handler for it yet.
void warn_of_barriers(const Environment& environment) {
  const auto is = [&](const char* name, const char* value) {
    const char* given = environment(name);
    return given != nullptr && std::strcmp(given, value) == 0;
  };
  const char* nodes = environment("SLURM_STEP_NUM_NODES");
  const bool by_srun = is("PMIX_RANK", "0") && environment("OMPI_COMM_WORLD_SIZE") == nullptr;
  if (!by_srun || nodes == nullptr || std::atoi(nodes) < 2 || is("SLURM_PMIX_FENCE", "ring"))
    return;
  fmt::print(stderr,
             "gpuhpc: warning: Slurm lets ranks start before those on other nodes are ready, and "
             "some launches end in a segmentation fault; export SLURM_PMIX_FENCE=ring before srun "
             "--mpi=pmix, as the job scripts do\n");
}

}  // namespace

void check_launch(const Environment& environment) {
  if (launched(environment)) {
    warn_of_barriers(environment);
    return check_temporary_folder(environment);
  }
  // srun tells its tasks how many they are. SLURM_NTASKS would not do: a batch script's shell has
  // it, too.
  const char* tasks = environment("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atoi(tasks) < 2) return;
  throw configuration_error(
      "srun started {} tasks without MPI, and each would do the whole work alone; start them with "
      "srun --mpi=pmix, with mpirun inside the allocation, or one alone with srun -n1",
      tasks);
}

}  // namespace gpuhpc
