#include <gpuhpc/nn/packed.hpp>

#include <gpuhpc/base/error.hpp>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>

namespace gpuhpc {

at::Tensor to_device(const at::Tensor& values, at::Device device) {
  return device.is_cuda() && !values.is_cuda()
             ? values.pin_memory().to(device, /*non_blocking=*/true)
             : values.to(device);
}

HostCopy::HostCopy(const at::Tensor& values) {
  if (!values.is_cuda()) {
    host_ = values.to(at::kCPU, at::kFloat).contiguous();
    return;
  }
  const at::Tensor packed = values.to(at::kFloat).contiguous();
  host_ = at::empty(packed.sizes(), at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
  host_.copy_(packed, /*non_blocking=*/true);
  there_.emplace(values.device().type());
  there_->record(c10::impl::VirtualGuardImpl(values.device().type()).getStream(values.device()));
}

at::Tensor HostCopy::wait() {
  if (there_) there_->synchronize();
  return host_;
}

namespace {

// Copies of a batch to its device. To a GPU from pinned memory, so that the host packs what comes
// next, and on a stream of their own, so that they do not stand in line behind what the GPU still
// computes. LibTorch hands both memories on only when their copies, or what reads them, are done.
// The stream is one of the device's 32, each with a small reserve of memory.
class BatchCopies {
 public:
  explicit BatchCopies(at::Device device) : device_(device) {
    if (device.is_cuda())
      copying_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }

  at::Tensor copy(std::span<const std::int32_t> values, at::ScalarType type) {
    const at::Tensor host =
        at::empty({static_cast<std::int64_t>(values.size())},
                  at::TensorOptions().dtype(type).pinned_memory(copying_.has_value()));
    if (type == at::kLong)
      std::copy(values.begin(), values.end(), host.mutable_data_ptr<std::int64_t>());
    else
      std::copy(values.begin(), values.end(), host.mutable_data_ptr<std::int32_t>());
    if (!copying_) return host.to(device_);
    const c10::StreamGuard guard(*copying_);  // the memory is taken for this stream, too
    copies_.push_back(host.to(device_, /*non_blocking=*/true));
    return copies_.back();
  }

  // What computes from here on waits for the copies.
  void finish() {
    if (!copying_) return;
    const c10::Stream computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    c10::Event there(device_.type());
    there.record(*copying_);
    there.block(computing);
    for (const at::Tensor& copy : copies_) copy.record_stream(computing);
  }

 private:
  at::Device device_;
  std::optional<c10::Stream> copying_;
  std::vector<at::Tensor> copies_;
};

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
  BatchCopies copies(device);
  batch.token_ids = copies.copy(token_ids, at::kLong);
  batch.position_ids = copies.copy(positions, at::kLong);
  if (!segment_ids.empty()) batch.segment_ids = copies.copy(segment_ids, at::kLong);
  batch.cumulative = copies.copy(offsets, at::kInt);
  copies.finish();
  return batch;
}

}  // namespace gpuhpc
