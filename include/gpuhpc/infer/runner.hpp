#pragma once
// One model over many items. Batches of whole items are cut by a token budget from their lengths
// alone, dealt to ranks as contiguous runs of equal work and to threads one by one, packed where
// they run, and their rows come back with their place: results are the same bits on any number of
// ranks and threads.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"
#include "gpuhpc/nn/encoder.hpp"

namespace gpuhpc {

// Items [first, last), and their work (tokens weighted by the attention they need).
struct ItemBatch {
  std::int64_t first = 0, last = 0;
  double work = 0;
};
// Batches of neighbouring items with about `budget` tokens each, and `most` items at most.
std::vector<ItemBatch> cut_batches(std::span<const std::int64_t> lengths, std::int64_t budget,
                                   std::int64_t hidden_size, std::int64_t most);
// The batches of one rank: contiguous, equal shares of the work.
std::span<const ItemBatch> share_of_rank(std::span<const ItemBatch> batches, int rank, int size);

// What [infer] and the device come to.
struct InferPlan {
  InferPlan(const InferOptions& options, const DeviceChoice& device);
  bool cuda;
  CpuPrecision precision;  // on processors
  kernels::Isa isa;
  int threads;
  std::int64_t budget;           // tokens of a batch
  std::int64_t most;             // items of a batch
  std::string numbers;           // what rounding depends on: "bf16 on amx"
  ForwardOptions forward;        // CUDA
  std::string describe() const;  // "bf16 on amx, 2 threads"
};
// Ranks that compute in different precisions would leave rows of different precisions. Throws
// configuration_error on all ranks. Collective.
void check_one_precision(Communicator& comm, const InferPlan& plan);

// The two ways of running a model; which is used follows from the plan.
struct InferModel {
  std::int64_t hidden_size = 0;  // of the layers
  std::int64_t columns = 0;      // of a row of results
  at::Device device = at::kCPU;
  // Rows of packed sequences. Called by many threads, each with a workspace of its own.
  std::function<void(CpuWorkspace&, const PackedIds&, MutableMatrixView)> on_cpu = {};
  std::function<std::unique_ptr<CpuWorkspace>()> workspace = {};
  std::function<at::Tensor(const PackedTokens&)> on_device = {};
};

class BatchRunner {
 public:
  BatchRunner(InferPlan plan, InferModel model)
      : plan_(std::move(plan)), model_(std::move(model)) {}
  const InferPlan& plan() const { return plan_; }
  std::int64_t columns() const { return model_.columns; }

  std::vector<ItemBatch> cut(std::span<const std::int64_t> lengths) const {
    return cut_batches(lengths, plan_.budget, model_.hidden_size, plan_.most);
  }
  using Pack = std::function<PackedIds(const ItemBatch&)>;
  using Use = std::function<void(const ItemBatch&, const PackedIds&, Matrix)>;
  // For every batch, from several threads: the rows of the sequences that `pack` makes of its items
  // go to use(batch, sequences, rows).
  void run(std::span<const ItemBatch> batches, const Pack& pack, const Use& use) const;

 private:
  void run_on_device(std::span<const ItemBatch> batches, const Pack& pack, const Use& use) const;
  InferPlan plan_;
  InferModel model_;
};

}  // namespace gpuhpc
