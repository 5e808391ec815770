#include "gpuhpc/train/arena.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t alignment = 16;  // floats: one cache line, one AVX-512 register

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A plain tensor (no autograd view) over a piece of `flat`.
at::Tensor piece(const at::Tensor& flat, std::int64_t offset, at::IntArrayRef shape) {
  at::Tensor result = at::empty({0}, flat.options());
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  result.set_(flat.storage(), offset, shape, strides);
  return result;
}

}  // namespace

std::vector<ParameterGroup> split_by_decay(const std::string& name, double learning_rate,
                                           double weight_decay,
                                           const std::vector<ParameterSlot>& parameters) {
  ParameterGroup decayed{name, learning_rate, weight_decay, {}},
      free{name + ".no-decay", learning_rate, 0, {}};
  for (const ParameterSlot& slot : parameters)
    (slot.value.dim() >= 2 ? decayed : free).parameters.push_back(slot);
  std::vector<ParameterGroup> groups;
  for (ParameterGroup& group : {std::ref(decayed), std::ref(free)})
    if (!group.parameters.empty()) groups.push_back(std::move(group));
  return groups;
}

ParameterArena::ParameterArena(const std::vector<ParameterGroup>& groups, int ranks) {
  const c10::NoGradGuard no_grad;
  std::unordered_map<const void*, std::size_t> known;  // tied tensors share an entry
  std::vector<std::size_t> entry_of_slot;
  at::Device device = at::kCPU;
  for (const ParameterGroup& group : groups) {
    const std::int64_t first = capacity_;
    for (const ParameterSlot& slot : group.parameters) {
      if (!slot.value.defined()) throw internal_error("parameter {} is not set", slot.name);
      if (entries_.empty()) device = slot.value.device();
      const auto [place, fresh] =
          known.try_emplace(slot.value.unsafeGetTensorImpl(), entries_.size());
      entry_of_slot.push_back(place->second);
      if (!fresh) continue;
      const std::int64_t count = slot.value.numel();
      entries_.push_back({slot.name, {capacity_, capacity_ + count}, slot.value.sizes().vec()});
      capacity_ += round_up(count, alignment);
      count_ += count;
    }
    groups_.push_back({group.name, group.learning_rate, group.weight_decay, {first, capacity_}});
  }
  capacity_ = round_up(capacity_, alignment * std::max(1, ranks));
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  parameters_ = at::zeros({capacity_}, options);
  gradients_ = at::zeros({capacity_}, options);
  std::size_t next = 0;
  leaves_.resize(entries_.size());
  for (const ParameterGroup& group : groups)
    for (const ParameterSlot& slot : group.parameters) {
      const std::size_t index = entry_of_slot[next++];
      const Entry& entry = entries_[index];
      at::Tensor& leaf = leaves_[index];
      if (!leaf.defined()) {
        leaf = piece(parameters_, entry.range.first, entry.shape);
        leaf.copy_(slot.value);
        leaf.set_requires_grad(true);
        leaf.mutable_grad() = piece(gradients_, entry.range.first, entry.shape);
      }
      slot.rebind(leaf);
    }
}

Range ParameterArena::slice(int rank, int size) const {
  const std::int64_t share = round_up((capacity_ + size - 1) / size, alignment);
  return {std::min(capacity_, share * rank), std::min(capacity_, share * (rank + 1))};
}

void ParameterArena::zero_gradients() { gradients_.zero_(); }

}  // namespace gpuhpc
