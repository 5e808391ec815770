// Inference on processors: what room nn's CpuEncoder and CpuT5 hold beside the model they were made
// of. Their figures: nn/cpu_forward.cpp, nn/cpu_t5.cpp.
#include <algorithm>

#include "layers.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t tokens_at_once = 384, rows_of_a_block = 96, page = 32,
                       slice = 320 * 1024;  // bytes of weights

std::int64_t up(std::int64_t value) { return (value + 31) / 32 * 32; }
// Columns of rows that kernels read side by side: an odd number of 32.
std::int64_t spread(std::int64_t columns) { return columns / 32 % 2 == 0 ? columns + 32 : columns; }
// Columns of a slice of a wide matrix that reads `depth`.
std::int64_t sliced(std::int64_t wide, std::int64_t depth, std::int64_t c) {
  return std::min(up(wide), std::max<std::int64_t>(32, slice / (depth * 32 * c) * 32));
}

// Tokens of the documents that a thread has in its buffers: whole documents, a long one alone.
std::int64_t tokens_of_thread(std::int64_t documents, std::int64_t length) {
  return std::min(documents, std::max<std::int64_t>(1, tokens_at_once / length)) * length;
}

// The model's own weights, as the process has them: tensors of a megabyte and more stand on pages
// of two (device/memory.cpp).
std::int64_t tensors_of(const PlannedModel& model) {
  constexpr std::int64_t large = 1 << 20, huge_page = 2 << 20;
  std::int64_t sum = 0;
  for (const NamedShape& shape : planned_shapes(model)) {
    const std::int64_t bytes = count_of(shape) * fp32;
    sum += bytes < large ? bytes : (bytes + huge_page - 1) / huge_page * huge_page;
  }
  return sum;
}

MemoryParts of_encoder(const PlannedModel& model, const PlannedWork& work,
                       const PlannedBatch& batch) {
  const EncoderConfig& e = model.encoder();
  const std::int64_t c = work.precision == "bf16" ? 2 : fp32, w = up(e.hidden_size),
                     f = up(e.intermediate_size),
                     each = (batch.documents * work.columns + work.threads - 1) / work.threads,
                     rows = up(tokens_of_thread(each, batch.length));
  MemoryParts parts;
  parts.weights = tensors_of(model);
  std::int64_t tables = 0;
  for (const NamedShape& shape : planned_shapes(model))
    if (shape.name.starts_with("embeddings.") && shape.shape.size() == 2) tables += count_of(shape);
  // ModernBERT's feed-forward part has a gate.
  const std::int64_t wide = e.modern ? 2 : 1;
  std::int64_t layer = 4 * w * w + (wide + 1) * w * f;
  if (e.relative) layer += 2 * e.relative->rows() * w;  // keys and queries of the positions
  parts.copies = tables * fp32 + e.layers * layer * c;
  const std::int64_t attention =
      2 * up(batch.length) * up(e.head_size()) * fp32 + 64 * up(batch.length) * fp32;
  parts.activations =
      work.threads * (rows * spread(w) * (fp32 + 2 * c) + (rows + 32) * spread(3 * w) * c +
                      wide * rows_of_a_block * sliced(f, wide * w, c) * c + attention);
  parts.workspace = batch.documents * work.columns * e.hidden_size * fp32;  // vectors
  return parts;
}

MemoryParts of_t5(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch) {
  const T5Config& t = model.t5();
  const std::int64_t c = work.precision == "bf16" ? 2 : fp32, w = up(t.hidden_size),
                     f = up(t.intermediate_size), inner = t.heads * up(t.head_size),
                     head = up(t.vocabulary_size) * w, wide = (t.gated ? 3 : 2) * w * f,
                     each = (batch.documents + work.threads - 1) / work.threads,
                     source = tokens_of_thread(each, batch.length),
                     rows = up(std::max(source, each * work.beams));
  MemoryParts parts;
  parts.weights = tensors_of(model);
  parts.copies =
      c * (head + t.layers * (4 * inner * w + wide) + t.decoder_layers * (8 * inner * w + wide));
  // Keys and values: of sources in blocks that were encoded together, of texts in pages.
  const std::int64_t together = source / batch.length, blocks = (each - 1) / together,
                     rest = each - blocks * together,
                     pages = (batch.target_length + page - 1) / page,
                     of_source = t.decoder_layers * 2 * inner * c;
  parts.cache = work.threads * of_source *
                (blocks * up(source) + up(rest * batch.length) + each * pages * page * work.beams);
  const std::int64_t attention =
      2 * up(batch.length) * up(t.head_size) * fp32 + 64 * up(batch.length) * fp32;
  parts.activations =
      work.threads * (rows * w * (fp32 + c) + (rows + 32) * 3 * inner * c + rows * inner * c +
                      (t.gated ? 2 : 1) * rows_of_a_block * sliced(f, w, c) * c + attention);
  parts.logits = work.threads * up(each * work.beams) * up(t.vocabulary_size) * fp32;
  // The head is packed from a copy in fp32, before all else.
  parts.workspace =
      std::max<std::int64_t>(0, t.vocabulary_size * t.hidden_size * fp32 + head * c - parts.copies -
                                    parts.cache - parts.activations - parts.logits);
  return parts;
}

}  // namespace

MemoryParts processor_inference(const PlannedModel& model, const PlannedWork& work,
                                const PlannedBatch& batch) {
  return model.is_t5() ? of_t5(model, work, batch) : of_encoder(model, work, batch);
}

}  // namespace gpuhpc
