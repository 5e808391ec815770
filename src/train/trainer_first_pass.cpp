// The first of the two passes of a loss over the global batch (GradCache).
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/nn/packed.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// Would one more graph fit, where those that are kept take `bytes`? Beside one, they may take all
// the room.
bool Trainer::has_room(std::int64_t bytes) {
  if (!room_) room_ = context_.room_for_graphs.value_or(my_part_of_free_memory() / 2);
  return *room_ > 0 && bytes <= *room_;
}

// The first pass of a loss over the global batch: every rank computes the loss of all rows; what it
// gives parameters of its own, and the loss itself, count once, on rank 0. The graph of the first
// micro-batch is kept, as its backward pass comes next, and those behind it that memory has room
// for: they are not computed again.
Trainer::FirstPass Trainer::first_pass(const Batch& batch, Share& share) {
  const Pieces& pieces = batch.pieces;
  const Range mine = batch.mine;
  FirstPass found;
  std::vector<float> own;
  std::vector<HostCopy> copies;  // read together, when the GPU has all its work
  try {
    const at::Device device = model_.parameters().device();
    const std::int64_t before = tensor_memory(device);
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const std::vector<std::int64_t>& items = pieces[static_cast<std::size_t>(i)];
      const bool keep = i == mine.first || (std::ssize(found.rows) == i - mine.first &&
                                            has_room(tensor_memory(device) - before));
      const at::AutoGradMode graph(keep);
      share.several_graphs |= keep && i > mine.first;
      take(i, share);
      at::Tensor rows;
      traced(trace_ ? &*trace_ : nullptr, "forward",
             [&] { rows = task_.represent(items, seed(i)).to(at::kFloat); });
      copies.emplace_back(rows.detach());
      if (keep) found.rows.push_back(std::move(rows));
    }
    for (HostCopy& copy : copies) {
      const at::Tensor rows = copy.wait();
      own.insert(own.end(), rows.const_data_ptr<float>(),
                 rows.const_data_ptr<float>() + rows.numel());
    }
  } catch (...) {
    share.error = std::current_exception();
    own.clear();
  }
  const std::int64_t width_here = share.error || mine.size() == 0 ? 0 : std::ssize(own) / [&] {
    std::int64_t items = 0;
    for (std::int64_t i = mine.first; i < mine.last; ++i)
      items += std::ssize(pieces[static_cast<std::size_t>(i)]);
    return items;
  }();
  std::vector<float> all = comm_.all_gather_v(std::span<const float>(own));
  const std::int64_t width = comm_.all_reduce_value(width_here, Reduce::max);
  if (share.error || std::ssize(all) != width * std::ssize(batch.items)) return {};
  // From the order of the micro-batches to that of the batch, which does not depend on them.
  std::unordered_map<std::int64_t, std::int64_t> place;
  for (const auto& items : pieces)
    for (const std::int64_t item : items) place.emplace(item, std::ssize(place));
  std::vector<std::int64_t> order;
  for (const std::int64_t item : batch.items) order.push_back(place.at(item));
  const at::Device device = model_.parameters().device();
  const at::Tensor places = to_device(at::tensor(order), device),
                   gathered = to_device(at::from_blob(all.data(), {std::ssize(batch.items), width}),
                                        device),
                   rows = gathered.index_select(0, places).set_requires_grad(true);
  const LossSum loss = task_.batch_loss(rows, batch.items);
  const at::Tensor scaled = scaler_.dynamic() ? loss.sum * scaler_.scale() : loss.sum;
  if (comm_.is_root()) {
    scaled.backward();
    share.loss = loss.sum.item<double>(), share.count = loss.count;
  } else {
    scaled.backward({}, std::nullopt, false, at::TensorList(rows));
  }
  std::int64_t before = 0, rows_here = 0;
  for (std::int64_t i = 0; i < mine.last; ++i)
    (i < mine.first ? before : rows_here) += std::ssize(pieces[static_cast<std::size_t>(i)]);
  const c10::NoGradGuard no_graph;
  found.gradients =
      at::empty_like(gathered).index_copy_(0, places, rows.grad()).narrow(0, before, rows_here);
  return found;
}

}  // namespace gpuhpc
