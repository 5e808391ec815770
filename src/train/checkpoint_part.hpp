#pragma once
// One rank's file of a checkpoint: 8 bytes magic, 8 bytes length of the header, header (JSON,
// padded with spaces to 64 bytes), then fp32 parameters, first and second moments of its ranges.
#include <span>

#include "gpuhpc/train/checkpoint.hpp"

namespace gpuhpc {

struct PartView {
  std::vector<Range> ranges;
  std::span<const float> parameters, first_moment,
      second_moment;  // each over the ranges, one behind the other
};

// Fills `image` (its memory is used again) with the part that `rank` of `size` writes: its own
// floats or, where it owns all, its slice.
void fill_part(std::vector<std::byte>& image, const CheckpointBuffers& buffers, std::int64_t step,
               int rank, int size);
// Views into `image`; input_error when it does not hold what its header says.
PartView view_part(std::span<const std::byte> image, const std::string& name);
// Copies what `part` holds of each entry of `old_entries` to the place of the same entry of the
// arena; returns the floats found.
std::int64_t restore_part(const PartView& part, const std::vector<Range>& old_entries,
                          const CheckpointBuffers& buffers);

}  // namespace gpuhpc
