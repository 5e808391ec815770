// NCCL itself, one rank on one GPU: the suite of all communicators over device memory, and sums of
// many sizes beside the compute stream.
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include "conformance.hpp"
#include "gpuhpc/comm/nccl.hpp"
#include "gpuhpc/comm/tensors.hpp"

namespace gpuhpc {
namespace {

const at::Device device(at::kCUDA, 0);

// A buffer of the host's and its copy on the GPU.
struct Staged {
  Staged(const void* data, std::int64_t count, DataType type)
      : host(at::from_blob(const_cast<void*>(data),
                           {count * static_cast<std::int64_t>(size_of(type))},
                           at::TensorOptions().dtype(at::kByte))),
        there(host.to(device)) {}
  void fetch() const { host.copy_(there); }
  at::Tensor host, there;  // bytes
};

class StagedWork final : public Work {
 public:
  StagedWork(std::unique_ptr<Work> work, Staged result, at::Tensor sent)
      : work_(std::move(work)), result_(std::move(result)), sent_(std::move(sent)) {}
  ~StagedWork() override {
    if (work_) finish();
  }
  void wait() override { finish(); }

 private:
  void finish() {
    work_->wait();
    work_.reset();
    result_.fetch();
  }
  std::unique_ptr<Work> work_;
  Staged result_;
  at::Tensor sent_;
};

// The suite's buffers lie in host memory: each collective takes them to the GPU, through NCCL, and
// back.
class OverDeviceMemory final : public Communicator {
 public:
  explicit OverDeviceMemory(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int node_rank() const override { return inner_.node_rank(); }
  int node_size() const override { return inner_.node_size(); }
  std::string host() const override { return inner_.host(); }
  void configure(const ParallelOptions& options) override { inner_.configure(options); }
  void barrier() override { inner_.barrier(); }
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    const Staged buffer(data, count, type);
    inner_.all_reduce(buffer.there.data_ptr(), count, type, reduce);
    buffer.fetch();
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    const Staged buffer(data, count, type);
    inner_.broadcast(buffer.there.data_ptr(), count, type, root);
    buffer.fetch();
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    start_all_gather(send, count, type, receive)->wait();
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const Staged sent(send, count, type), result(receive, total, type);
    inner_.all_gather_ragged(sent.there.data_ptr(), count, type, result.there.data_ptr(), counts);
    result.fetch();
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    start_reduce_scatter(send, receive, count, type, reduce)->wait();
  }
  std::unique_ptr<Work> start_all_reduce(void* data, std::int64_t count, DataType type,
                                         Reduce reduce) override {
    Staged buffer(data, count, type);
    auto work = inner_.start_all_reduce(buffer.there.data_ptr(), count, type, reduce);
    return std::make_unique<StagedWork>(std::move(work), buffer, at::Tensor());
  }
  std::unique_ptr<Work> start_reduce_scatter(const void* send, void* receive, std::int64_t count,
                                             DataType type, Reduce reduce) override {
    const Staged sent(send, count * size(), type), result(receive, count, type);
    auto work = inner_.start_reduce_scatter(sent.there.data_ptr(), result.there.data_ptr(), count,
                                            type, reduce);
    return std::make_unique<StagedWork>(std::move(work), result, sent.there);
  }
  std::unique_ptr<Work> start_all_gather(const void* send, std::int64_t count, DataType type,
                                         void* receive) override {
    const Staged sent(send, count, type), result(receive, count * size(), type);
    auto work =
        inner_.start_all_gather(sent.there.data_ptr(), count, type, result.there.data_ptr());
    return std::make_unique<StagedWork>(std::move(work), result, sent.there);
  }

 private:
  Communicator& inner_;
};

Backend nccl() {
  return {"nccl",
          [](const auto& body) {
            const auto alone = make_single_communicator();
            const auto inner = make_nccl_communicator(*alone, make_nccl_api(0));
            OverDeviceMemory comm(*inner);
            body(comm);
          },
          /*keeps_tree=*/false};
}
INSTANTIATE_TEST_SUITE_P(OneGpu, Conformance, testing::Values(nccl()),
                         [](const auto& param) { return param.param.name; });

// What computes before and after a sum sees it in its place, without the host waiting in between.
TEST(NcclOnGpu, SumsOfManySizesKeepTheirPlaceOnTheComputeStream) {
  const auto alone = make_single_communicator();
  const auto comm = make_nccl_communicator(*alone, make_nccl_api(0));
  for (std::int64_t count = 1; count <= std::int64_t{1} << 26; count = count * 3 + 1) {
    const at::Tensor data = at::ones({count}, at::TensorOptions().dtype(at::kFloat).device(device));
    data.add_(1);
    const auto work = start_all_reduce(*comm, data);
    work->wait();
    data.mul_(3);
    EXPECT_TRUE(at::equal(data, at::full_like(data, 6))) << count;
  }
}

}  // namespace
}  // namespace gpuhpc
