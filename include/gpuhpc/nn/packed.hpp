#pragma once
// Packed tokens: the documents of a batch one after the other, nothing between them, so no padding
// is ever computed.
#include <gpuhpc/data/batches.hpp>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpuhpc {

// Where the B sequences of a batch lie: sequence b is rows [offsets[b], offsets[b+1]), at least
// one.
struct PackedOffsets {
  std::vector<std::int32_t> offsets;  // (B+1)
  at::Tensor cumulative;              // (B+1) int32, the same on the device of the rows
  std::int32_t max_len = 0;

  std::int64_t documents() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t tokens() const { return offsets.empty() ? 0 : offsets.back(); }
  std::vector<std::int64_t> lengths() const;
};

// Packed sequences on a device, special tokens included. Legend: T tokens.
struct PackedTokens : PackedOffsets {
  at::Tensor token_ids;     // (T) int64
  at::Tensor segment_ids;   // (T) int64 or undefined: all segment 0
  at::Tensor position_ids;  // (T) int64, place of the token in its sequence, from 0
};

// A small tensor of the host on `device`. To a GPU it goes through pinned memory, so that the host
// does not wait until the GPU has come to the copy. Not for a thread that works ahead of a
// training: pinning may ask the driver for memory (SyncOptions::one_process), as in pack_tokens().
at::Tensor to_device(const at::Tensor& values, at::Device device);

// A tensor on its way to the host, as fp32. Of a GPU it goes into pinned memory behind what
// computes it, and the host waits in wait() alone.
class HostCopy {
 public:
  explicit HostCopy(const at::Tensor& values);
  at::Tensor wait();  // contiguous

 private:
  at::Tensor host_;
  std::optional<c10::Event> there_;
};

// From ids that already hold the special tokens; token_ids has offsets.back() entries. segment_ids
// empty: all 0.
PackedTokens pack_tokens(std::span<const std::int32_t> token_ids,
                         std::span<const std::int32_t> offsets, at::Device device,
                         std::span<const std::int32_t> segment_ids = {});
inline PackedTokens pack_tokens(const PackedIds& ids, at::Device device) {
  return pack_tokens(ids.token_ids, ids.offsets, device, ids.segments);
}

}  // namespace gpuhpc
