#include <gpuhpc/nn/packed.hpp>

#include <gpuhpc/base/error.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>

namespace gpuhpc {
namespace {

at::Tensor to_device(std::span<const std::int32_t> values, at::ScalarType type, at::Device device) {
  // From pinned memory the copy runs beside the host, which packs what comes next.
  at::Tensor host = at::empty({static_cast<std::int64_t>(values.size())},
                              at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
  if (type == at::kLong)
    std::copy(values.begin(), values.end(), host.data_ptr<std::int64_t>());
  else
    std::copy(values.begin(), values.end(), host.data_ptr<std::int32_t>());
  return host.to(device, /*non_blocking=*/device.is_cuda());
}

}  // namespace

std::vector<std::int64_t> PackedOffsets::lengths() const {
  std::vector<std::int64_t> result;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
    result.push_back(offsets[b + 1] - offsets[b]);
  return result;
}

PackedTokens pack_tokens(std::span<const std::int32_t> token_ids,
                         std::span<const std::int32_t> offsets, at::Device device,
                         std::span<const std::int32_t> segment_ids) {
  if (offsets.size() < 2 || offsets.front() != 0 ||
      static_cast<std::size_t>(offsets.back()) != token_ids.size()) {
    throw internal_error("packed offsets must run from 0 to the number of tokens ({})",
                         token_ids.size());
  }
  if (!segment_ids.empty() && segment_ids.size() != token_ids.size()) {
    throw internal_error("{} segment ids for {} tokens", segment_ids.size(), token_ids.size());
  }
  PackedTokens batch;
  batch.offsets.assign(offsets.begin(), offsets.end());
  std::vector<std::int32_t> positions(token_ids.size());
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const std::int32_t length = offsets[b + 1] - offsets[b];
    if (length < 1) throw internal_error("document {} of a packed batch has no tokens", b);
    batch.max_len = std::max(batch.max_len, length);
    for (std::int32_t i = 0; i < length; ++i)
      positions[static_cast<std::size_t>(offsets[b]) + static_cast<std::size_t>(i)] = i;
  }
  batch.token_ids = to_device(token_ids, at::kLong, device);
  batch.position_ids = to_device(positions, at::kLong, device);
  if (!segment_ids.empty()) batch.segment_ids = to_device(segment_ids, at::kLong, device);
  batch.cumulative = to_device(offsets, at::kInt, device);
  return batch;
}

}  // namespace gpuhpc
