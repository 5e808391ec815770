#include "gpuhpc/comm/mpi.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

// MPI counts are 32-bit: longer buffers travel in pieces.
constexpr std::int64_t kPiece = std::int64_t{1} << 28;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::peer, fmt::format("{} failed: {}", what, text));
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float32: return MPI_FLOAT;
    case DataType::float64: return MPI_DOUBLE;
    case DataType::int32: return MPI_INT32_T;
    case DataType::int64: return MPI_INT64_T;
    case DataType::uint8: return MPI_UINT8_T;
    case DataType::bfloat16:
    case DataType::float16: return MPI_UINT16_T;
  }
  throw internal_error("unknown wire type");
}

MPI_Op mpi_op(Reduce reduce, DataType type) {
  if (type == DataType::bfloat16 || type == DataType::float16)
    throw internal_error("16-bit floats are reduced in float32 over MPI; convert first");
  return reduce == Reduce::sum ? MPI_SUM : reduce == Reduce::max ? MPI_MAX : MPI_MIN;
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm parent) {
    check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    MPI_Comm_rank(node, &node_rank_);
    MPI_Comm_size(node, &node_size_);
    MPI_Comm_free(&node);
  }
  ~MpiCommunicator() override { MPI_Comm_free(&comm_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_rank() const override { return node_rank_; }
  int node_size() const override { return node_size_; }
  std::string host() const override {
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    return {name, static_cast<std::size_t>(length)};
  }
  void barrier() override { check(MPI_Barrier(comm_), "barrier"); }

  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    for_pieces(count, type, [&](std::int64_t at, int n) {
      check(MPI_Allreduce(MPI_IN_PLACE, shifted(data, at), n, mpi_type(type), mpi_op(reduce, type), comm_), "all_reduce");
    });
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    for_pieces(count, type, [&](std::int64_t at, int n) { check(MPI_Bcast(shifted(data, at), n, mpi_type(type), root, comm_), "broadcast"); });
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), count);
    all_gather_ragged(send, count, type, receive, counts);
  }
  // One broadcast a rank: no 32-bit displacement limits, any sizes.
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive, std::span<const std::int64_t> counts) override {
    std::int64_t at = 0;
    for (int root = 0; root < size_; ++root) {
      void* slot = shifted(receive, at * static_cast<std::int64_t>(size_of(type)));
      const std::int64_t n = counts[static_cast<std::size_t>(root)];
      if (root == rank_ && count > 0) std::copy_n(static_cast<const char*>(send), count * static_cast<std::int64_t>(size_of(type)), static_cast<char*>(slot));
      broadcast(slot, n, type, root);
      at += n;
    }
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type, Reduce reduce) override {
    if (count > kPiece) throw internal_error("reduce_scatter of {} elements a rank: cut it into buckets", count);
    check(MPI_Reduce_scatter_block(send, receive, static_cast<int>(count), mpi_type(type), mpi_op(reduce, type), comm_), "reduce_scatter");
  }

 private:
  static void* shifted(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }
  template <typename Call>
  static void for_pieces(std::int64_t count, DataType type, Call call) {
    const auto width = static_cast<std::int64_t>(size_of(type));
    for (std::int64_t done = 0; done < count; done += kPiece) call(done * width, static_cast<int>(std::min(kPiece, count - done)));
  }
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
};

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  // Alone (no launcher) Open MPI would look for a daemon; this keeps a single process self-contained.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && std::getenv("PMIX_RANK") == nullptr) setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  int provided = 0;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::unique_ptr<Communicator> MpiSession::world() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return make_single_communicator();
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD);
}

void MpiSession::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);
}

}  // namespace gpuhpc
