#include "gpuhpc/infer/runner.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"

namespace gpuhpc {

std::vector<ItemBatch> cut_batches(std::span<const std::int64_t> lengths, std::int64_t budget,
                                   std::int64_t hidden_size, std::int64_t most) {
  std::vector<ItemBatch> batches;
  std::int64_t tokens = 0;
  for (std::int64_t d = 0; d < std::ssize(lengths); ++d) {
    const std::int64_t length = lengths[static_cast<std::size_t>(d)];
    if (batches.empty() || tokens + length > budget || d - batches.back().first == most) {
      batches.push_back({d, d, 0});
      tokens = 0;
    }
    tokens += length;
    batches.back().last = d + 1;
    // A token costs 24 H^2 multiply-adds in the linears and 4 H in attention for every token of its
    // document.
    const double s = static_cast<double>(length);
    batches.back().work += s * (1.0 + s / (6.0 * static_cast<double>(hidden_size)));
  }
  return batches;
}

std::span<const ItemBatch> share_of_rank(std::span<const ItemBatch> batches, int rank, int size) {
  double total = 0;
  for (const ItemBatch& batch : batches) total += batch.work;
  // A batch goes to the rank in whose share of the work its middle lies.
  std::size_t first = batches.size(), last = batches.size();
  double before = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const double middle = before + batches[b].work / 2;
    const int owner = total > 0 ? std::min(size - 1, static_cast<int>(middle / total * size)) : 0;
    if (owner >= rank) first = std::min(first, b);
    if (owner > rank) {
      last = b;
      break;
    }
    before += batches[b].work;
  }
  return batches.subspan(first, last - first);
}

InferPlan::InferPlan(const InferOptions& options, const DeviceChoice& device)
    : cuda(device.cuda),
      precision(device.cuda ? CpuPrecision::fp32 : options.cpu_precision()),
      isa(device.cuda ? kernels::Isa::generic : options.isa()),
      threads(device.cuda ? 1 : std::max(device.threads, 1)),
      budget(options.token_budget > 0 ? options.token_budget
             : device.cuda            ? 32768
                                      : 2048),
      most(options.batch > 0 ? options.batch : std::numeric_limits<std::int64_t>::max()) {
  if (cuda) {
    const std::string name = options.gpu_precision(multiplies_bf16(device.index));
    forward.compute = name == "bf16" ? at::kBFloat16 : name == "fp16" ? at::kHalf : at::kFloat;
    forward.tf32 = name == "tf32";
    numbers = name + " on cuda";
    return;
  }
  const bool instead = options.precision == "fp16" ||
                       (options.precision == "bf16" && precision != CpuPrecision::bf16);
  numbers =
      fmt::format("{} on {}{}", to_string(precision), to_string(isa),
                  instead ? fmt::format(" (which does not multiply {})", options.precision) : "");
}

void check_one_precision(Communicator& comm, const InferPlan& plan) {
  const auto words = comm.all_gather_strings(plan.numbers.substr(0, plan.numbers.find(' ')));
  const auto other =
      std::ranges::find_if(words, [&](const auto& word) { return word != words[0]; });
  if (other != words.end())
    throw Error(ExitCode::configuration,
                fmt::format("--infer.precision is {} on rank 0 and {} on rank {}, whose rows are "
                            "not to be mixed; give one that all ranks have, such as fp32",
                            words[0], *other, other - words.begin()),
                true);
}

std::string InferPlan::describe() const {
  return fmt::format("{}, {} thread{}", numbers, threads, threads == 1 ? "" : "s");
}

void BatchRunner::run(std::span<const ItemBatch> batches, const Pack& pack, const Use& use) const {
  if (plan_.cuda) return run_on_device(batches, pack, use);
  std::vector<std::unique_ptr<CpuWorkspace>> workspaces(static_cast<std::size_t>(plan_.threads));
  parallel_for(0, std::ssize(batches), plan_.threads, [&](std::int64_t b, int thread) {
    const ItemBatch& batch = batches[static_cast<std::size_t>(b)];
    const PackedIds packed = pack(batch);
    Matrix rows(packed.size(), model_.columns);
    auto& workspace = workspaces[static_cast<std::size_t>(thread)];
    if (!workspace) workspace = model_.workspace();
    model_.on_cpu(*workspace, packed, rows.view());
    use(batch, packed, std::move(rows));
  });
}

// While the GPU computes a batch, the host packs the next one and uses the rows of the one before.
void BatchRunner::run_on_device(std::span<const ItemBatch> batches, const Pack& pack,
                                const Use& use) const {
  struct Underway {
    const ItemBatch& batch;
    PackedIds packed;
    std::vector<HostCopy> rows;  // of its pieces
  };
  const at::NoGradGuard guard;
  // In pieces of the budget: a document is in one batch, however many windows it has.
  const auto compute = [&](const PackedIds& packed) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < packed.size(); ++i) lengths.push_back(packed.length(i));
    std::vector<HostCopy> pieces;
    for (const ItemBatch& piece : cut_batches(lengths, plan_.budget, model_.hidden_size,
                                              std::numeric_limits<std::int64_t>::max())) {
      std::vector<std::int32_t> offsets(packed.offsets.begin() + piece.first,
                                        packed.offsets.begin() + piece.last + 1);
      const auto first = static_cast<std::size_t>(offsets.front()),
                 tokens = static_cast<std::size_t>(offsets.back()) - first;
      for (std::int32_t& offset : offsets) offset -= static_cast<std::int32_t>(first);
      const std::span<const std::int32_t> ids(packed.token_ids), segments(packed.segments);
      pieces.emplace_back(model_.on_device(
          pack_tokens(ids.subspan(first, tokens), offsets, model_.device,
                      segments.empty() ? segments : segments.subspan(first, tokens))));
    }
    return pieces;
  };
  std::optional<Underway> before;
  const auto finish = [&] {
    if (!before) return;
    Matrix rows(before->packed.size(), model_.columns);
    float* next = rows.values.data();
    for (HostCopy& piece : before->rows) {
      const at::Tensor found = piece.wait();
      next = std::copy_n(found.const_data_ptr<float>(), found.numel(), next);
    }
    use(before->batch, before->packed, std::move(rows));
  };
  for (const ItemBatch& batch : batches) {
    PackedIds packed = pack(batch);
    std::vector<HostCopy> rows = compute(packed);
    finish();
    before.emplace(Underway{batch, std::move(packed), std::move(rows)});
  }
  finish();
}

}  // namespace gpuhpc
