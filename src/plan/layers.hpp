#pragma once
// What one layer keeps for its gradient; private to room plan.
#include "gpuhpc/plan/memory.hpp"

namespace gpuhpc {

constexpr std::int64_t fp32 = 4;  // bytes

// Adds tensors up as the allocator sees them.
class Tally {
 public:
  explicit Tally(bool cuda) : cuda_(cuda) {}
  Tally& add(std::int64_t bytes, std::int64_t times = 1) {
    sum_ += times * held_bytes(bytes, cuda_);
    return *this;
  }
  std::int64_t sum() const { return sum_; }

 private:
  bool cuda_;
  std::int64_t sum_ = 0;
};

struct LayerBytes {
  std::int64_t kept = 0;       // for the gradient
  std::int64_t copies = 0;     // of weights, likewise
  std::int64_t input = 0;      // all that a checkpointed layer keeps
  std::int64_t transient = 0;  // on top of it when its gradient begins
  std::int64_t forward = 0;    // without a graph, at most
};

// Sequences of one batch: `rows` in all.
struct Rows {
  std::int64_t documents, length;
  std::int64_t rows() const { return documents * length; }
};

// Of layer `index`. `behind`: rows that go on behind attention, where only first tokens count.
LayerBytes encoder_layer(const EncoderConfig& config, const PlannedWork& work, const Rows& rows,
                         std::int64_t behind, std::int64_t index);
LayerBytes t5_layer_bytes(const T5Config& config, const PlannedWork& work, const Rows& source,
                          const Rows& target, bool decoder);

// A head over `vocabulary` words for `rows` rows, loss and its gradient.
struct HeadBytes {
  std::int64_t copies = 0, kept = 0;
  std::int64_t forward = 0;  // of logits and what is made of them, without a graph
  std::int64_t peak = 0;     // with their gradient; on top of `kept`
};
HeadBytes vocabulary_head(const PlannedWork& work, std::int64_t rows, std::int64_t hidden,
                          std::int64_t vocabulary, bool masked_head);

// inference_memory() of a processor.
MemoryParts processor_inference(const PlannedModel& model, const PlannedWork& work,
                                const PlannedBatch& batch);

}  // namespace gpuhpc
