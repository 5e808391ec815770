#pragma once
// How much memory a job takes, part by part, from shapes alone: what the implementation in rooms nn
// and train keeps of each operator. Legend: T tokens, B documents, H hidden size, A heads, F
// intermediate size, V vocabulary; bytes everywhere.
#include <cstdint>
#include <string>

#include "gpuhpc/plan/model.hpp"

namespace gpuhpc {

enum class PlanJob { classifier, embedding, pretrain, seq2seq, encode, generate };
constexpr bool is_training(PlanJob job) {
  return job != PlanJob::encode && job != PlanJob::generate;
}

// How it is computed: everything that memory and time depend on beside the model and the batch.
struct PlannedWork {
  PlanJob job = PlanJob::classifier;
  bool cuda = true;
  bool cpu_fp32 = false, cpu_bf16 = false;  // the hand-written layers of processors serve these
  std::string precision = "fp32";           // fp32 | tf32 | bf16 | fp16
  bool checkpointing = false;               // --train.activation-checkpointing
  std::string optimizer = "adamw";          // adamw | lamb | adafactor
  int ranks = 1;
  bool zero1 = false;
  bool bf16_gradients = false;       // --parallel.reduce-type
  bool reproducible = true;          // --parallel.reproducible
  double dropout = 0;                // of hidden values
  double attention_dropout = 0;      // of probabilities
  std::int64_t trained_layers = -1;  // --train.layers
  double masked = .15;               // --pretrain.masked
  double label_smoothing = 0;
  std::int64_t columns = 1;  // texts of an item: 2 in pairs
  // Embedding: the loss compares all of a global batch; with several micro-batches in two passes
  // (GradCache), of which the first keeps vectors and the graph of one micro-batch.
  bool over_batch = false;
  std::int64_t beams = 1;
  std::int64_t threads = 1;  // of a processor: encode and generate have buffers for each

  bool cpu_layers() const {
    return !cuda && (precision == "bf16" ? cpu_bf16 : precision != "fp16" && cpu_fp32);
  }
  bool half() const { return precision == "bf16" || precision == "fp16"; }
  std::int64_t value_bytes() const { return half() ? 2 : 4; }  // of a product
};

// Documents computed at once, all as long as they may be.
struct PlannedBatch {
  std::int64_t documents = 1, length = 128, target_length = 64;
  std::int64_t micro_batches = 1;  // of a global batch, over all ranks
};

struct MemoryParts {
  std::int64_t weights = 0;    // fp32: the masters, too
  std::int64_t gradients = 0;  // fp32, and on processors the sums that reproducible adding keeps
  std::int64_t optimizer = 0;  // moments; zero1: this rank's part
  std::int64_t communication = 0;  // what travels in another type, or parts of it
  std::int64_t copies = 0;         // weights in the type of the products, kept for the gradient
  std::int64_t activations = 0;    // what layers keep for the gradient; inference: of one layer
  // Of the head over the vocabulary, its gradient included; embedding: scores of a batch's texts.
  std::int64_t logits = 0;
  std::int64_t cache = 0;      // keys and values of a decoder
  std::int64_t workspace = 0;  // what lives for a moment, at the highest moment

  std::int64_t kept() const {  // between two steps
    return weights + gradients + optimizer + communication;
  }
  std::int64_t total() const { return kept() + copies + activations + logits + cache + workspace; }
  // What a calibration corrects: all that grows with the batch.
  std::int64_t moving() const { return total() - kept(); }
};

MemoryParts training_memory(const PlannedModel& model, const PlannedWork& work,
                            const PlannedBatch& batch);
// The loss of held-out items within a training: no graph.
MemoryParts evaluation_memory(const PlannedModel& model, const PlannedWork& work,
                              const PlannedBatch& batch);
// `encode`, `predict` and `generate`, a process of their own. On a processor: what room nn's
// kernels hold, weights packed beside the model's own; `documents` are those of all threads
// together.
MemoryParts inference_memory(const PlannedModel& model, const PlannedWork& work,
                             const PlannedBatch& batch);

// Bytes that a tensor of `bytes` takes: processors round large ones up (device/memory.hpp).
std::int64_t held_bytes(std::int64_t bytes, bool cuda);

}  // namespace gpuhpc
