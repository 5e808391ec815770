#include "gpuhpc/plan/memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "layers.hpp"

namespace gpuhpc {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Floats {
  std::int64_t trained = 0;  // in the arena
  std::int64_t frozen = 0;   // beside it
  std::int64_t largest = 0;  // tensor that learns
  std::int64_t group = 0;    // of one decay
};

// Each tensor begins on 16 floats in the arena.
Floats floats_of(const PlannedModel& model, const PlannedWork& work) {
  Floats floats;
  std::int64_t first_trained = -1;
  if (!model.is_t5() && work.trained_layers >= 0)
    first_trained = std::max<std::int64_t>(0, model.encoder().layers - work.trained_layers);
  for (const NamedShape& shape : planned_shapes(model, work.job == PlanJob::pretrain)) {
    const std::int64_t count = count_of(shape);
    const bool modern = !model.is_t5() && model.encoder().modern;
    const std::string layers = modern ? "layers." : "encoder.layer.";
    const bool behind = shape.name.starts_with("pooler.") || shape.name.starts_with("final_norm.");
    std::int64_t layer = behind ? first_trained + 1000 : -1;
    if (shape.name.starts_with(layers)) layer = std::stoll(shape.name.substr(layers.size()));
    const bool head = shape.name.starts_with("cls.") || shape.name.starts_with("lm_head.") ||
                      shape.name.starts_with("head.") || shape.name.starts_with("decoder.");
    const bool learns =
        first_trained < 0 || head || (work.trained_layers != 0 && layer >= first_trained);
    if (!learns) {
      floats.frozen += count;
      continue;
    }
    floats.trained += round_up(count, 16);
    floats.largest = std::max(floats.largest, count);
    if (shape.shape.size() > 1) floats.group += round_up(count, 16);
  }
  return floats;
}

// Sums of quarters of a global batch that GradientSync keeps on processors.
std::int64_t kept_sums(const PlannedWork& work, std::int64_t micro_batches) {
  if (work.cuda || !work.reproducible) return 0;
  const std::int64_t mine = (micro_batches + work.ranks - 1) / work.ranks;
  std::int64_t keeps = 0;
  for (std::int64_t i = 0; i + 1 < mine; ++i)
    keeps += i * 4 / micro_batches != (i + 1) * 4 / micro_batches;
  return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(keeps)));
}

// What stays between the steps of a training.
MemoryParts standing_memory(const PlannedModel& model, const PlannedWork& work,
                            const PlannedBatch& batch) {
  const Floats floats = floats_of(model, work);
  const std::int64_t arena =
                         held_bytes(round_up(floats.trained, 16 * work.ranks) * fp32, work.cuda),
                     share = work.zero1 ? arena / work.ranks : arena;
  MemoryParts parts;
  parts.weights = arena + floats.frozen * fp32;
  parts.gradients = arena * (1 + kept_sums(work, batch.micro_batches));
  parts.optimizer = 2 * share;
  if (work.ranks > 1 && (work.bf16_gradients)) parts.communication += arena / 2;
  if (work.ranks > 1 && work.zero1) parts.communication += share / (work.bf16_gradients ? 2 : 1);
  return parts;
}

// On top of that, for a moment of the update.
std::int64_t update_workspace(const Floats& floats, const PlannedWork& work) {
  const std::int64_t share = work.zero1 ? work.ranks : 1;
  std::int64_t bytes = 0;
  if (work.optimizer == "lamb") bytes = 2 * floats.group / share * fp32;
  if (work.optimizer == "adafactor") bytes = 2 * floats.largest * fp32;
  if (work.zero1) bytes = std::max(bytes, floats.trained / work.ranks * fp32);
  return bytes;
}

struct Walk {  // through the layers of a model
  std::int64_t kept = 0, copies = 0, inputs = 0;
  std::int64_t transient = 0;  // of the last layer
  std::int64_t again = 0;      // a checkpointed layer, computed again
  std::int64_t forward = 0;
  void add(const LayerBytes& layer) {
    kept += layer.kept, copies += layer.copies, inputs += layer.input;
    transient = layer.transient;
    again = std::max(again, layer.kept + layer.copies + layer.transient);
    forward = std::max(forward, layer.forward);
  }
};

Walk walk_through(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch) {
  Walk walk;
  const Rows source{batch.documents * work.columns, batch.length},
      target{batch.documents, batch.target_length};
  if (model.is_t5()) {
    const T5Config& config = model.t5();
    for (const bool decoder : {false, true}) {
      const LayerBytes layer = t5_layer_bytes(config, work, source, target, decoder);
      for (std::int64_t i = 0; i < (decoder ? config.decoder_layers : config.layers); ++i)
        walk.add(layer);
    }
    return walk;
  }
  const EncoderConfig& config = model.encoder();
  const std::int64_t trained =
      work.trained_layers < 0 ? config.layers : std::min(config.layers, work.trained_layers);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const LayerBytes layer = encoder_layer(config, work, source, source.rows(), i);
    if (i >= config.layers - trained) walk.add(layer);
    walk.forward = std::max(walk.forward, layer.forward);
  }
  return walk;
}

// Embeddings, and what stands behind the last layer of each stack.
std::int64_t around_layers(const PlannedModel& model, const PlannedWork& work,
                           const PlannedBatch& batch) {
  const std::int64_t h = model.hidden(), source = batch.documents * work.columns * batch.length,
                     target = batch.documents * batch.target_length;
  Tally tally(work.cuda);
  const auto stack = [&](std::int64_t rows) {
    tally.add(rows * 8, 2);                                         // ids and places
    if (work.cuda && work.dropout > 0) tally.add(rows * h * fp32);  // mask
  };
  stack(source);
  if (!model.is_t5()) {
    if (work.trained_layers < 0) tally.add(source * h * fp32);     // the norm's input
    tally.add(source * h * fp32, model.encoder().modern ? 2 : 1);  // the last layer's output
    return tally.sum();
  }
  stack(target);
  for (const std::int64_t rows : {source, target})
    tally.add(rows * h * fp32, (work.cuda ? 1 : 2) + (work.cuda && work.dropout > 0 ? 2 : 1));
  return tally.sum();
}

// The vectors of `rows` rows, and the scores of each with the texts of all: logarithms and two
// gradients of that size. Vectors of unit length, their gradients, and those of the vectors.
HeadBytes batch_scores(const PlannedModel& model, const PlannedWork& work, std::int64_t rows) {
  const std::int64_t vectors = held_bytes(rows * work.columns * model.hidden() * fp32, work.cuda),
                     scores = work.over_batch
                                  ? held_bytes(rows * rows * (work.columns - 1) * fp32, work.cuda)
                                  : 0;
  return {.copies = 0,
          .kept = vectors,
          .forward = 2 * scores + 2 * vectors,
          .peak = 3 * scores + 3 * vectors};
}

bool in_two_passes(const PlannedWork& work, const PlannedBatch& batch) {
  return work.job == PlanJob::embedding && work.over_batch && batch.micro_batches > 1;
}

HeadBytes head_of(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch) {
  const bool masked = work.job == PlanJob::pretrain;
  if (work.job == PlanJob::embedding)  // of a second pass: the gradients of all rows
    return in_two_passes(work, batch)
               ? HeadBytes{.kept = batch_scores(model, work, batch.documents * batch.micro_batches)
                                       .kept}
               : batch_scores(model, work, batch.documents);
  if (!masked && !model.is_t5()) return {};
  const std::int64_t rows =
      masked ? batch.documents *
                   std::max<std::int64_t>(
                       1, std::llround(work.masked * static_cast<double>(batch.length - 2)))
             : batch.documents * batch.target_length;
  return vocabulary_head(work, rows, model.hidden(), model.vocabulary(), masked);
}

}  // namespace

MemoryParts training_memory(const PlannedModel& model, const PlannedWork& work,
                            const PlannedBatch& batch) {
  MemoryParts parts = standing_memory(model, work, batch);
  const Walk walk = walk_through(model, work, batch);
  const HeadBytes head = head_of(model, work, batch);
  parts.activations = around_layers(model, work, batch) + head.kept +
                      (work.checkpointing ? walk.inputs : walk.kept);
  parts.copies = work.checkpointing ? 0 : walk.copies;
  parts.logits = head.peak + head.copies;
  // The head's gradient is done when the last layer's begins, but that of a word table which the
  // head shares waits for the embeddings', and stands twice when they are added. The update comes
  // after all that.
  const bool shared = work.job == PlanJob::pretrain || (model.is_t5() && model.t5().tied_head);
  const std::int64_t words =
      shared ? held_bytes(model.vocabulary() * model.hidden() * fp32, work.cuda) : 0;
  // The loss over the global batch, behind a first pass that keeps the graph of one micro-batch (of
  // more only where there is room).
  const std::int64_t first_pass =
      in_two_passes(work, batch)
          ? batch_scores(model, work, batch.documents * batch.micro_batches).peak
          : 0;
  const std::int64_t layer = words + (work.checkpointing ? walk.again : walk.transient),
                     end = std::max(2 * words, update_workspace(floats_of(model, work), work));
  parts.workspace = std::max<std::int64_t>({0, layer - parts.logits, first_pass - parts.logits,
                                            end - parts.activations - parts.copies - parts.logits});
  return parts;
}

MemoryParts evaluation_memory(const PlannedModel& model, const PlannedWork& work,
                              const PlannedBatch& batch) {
  MemoryParts parts = standing_memory(model, work, batch);
  PlannedWork still = work;
  still.dropout = still.attention_dropout = 0;
  // The layers are done when the head begins; what it reads stays, in T5 both stacks' outputs.
  const std::int64_t layers = walk_through(model, still, batch).forward,
                     rows = batch.documents * (batch.length * work.columns +
                                               (model.is_t5() ? batch.target_length : 0));
  parts.logits = head_of(model, still, batch).forward;
  parts.activations = std::max(layers - parts.logits, rows * model.hidden() * fp32);
  return parts;
}

MemoryParts inference_memory(const PlannedModel& model, const PlannedWork& work,
                             const PlannedBatch& batch) {
  if (!work.cuda) return processor_inference(model, work, batch);
  PlannedWork still = work;
  still.dropout = still.attention_dropout = 0;
  still.trained_layers = -1;
  const std::int64_t c = still.value_bytes();
  MemoryParts parts;
  parts.weights = parameter_count(model) * fp32;
  parts.activations = walk_through(model, still, batch).forward;
  if (!model.is_t5()) return parts;
  const T5Config& config = model.t5();
  const std::int64_t inner = config.inner_size(), rows = batch.documents * still.beams,
                     source = batch.documents * batch.length, h = config.hidden_size;
  // The decoder joins and casts its weights once; the encoder's copies come and go (forward).
  const std::int64_t joined = 5 * inner * h,
                     others = 3 * inner * h + (config.gated ? 3 : 2) * h * config.intermediate_size;
  parts.copies = config.decoder_layers * (joined + (still.half() ? others : 0)) * c +
                 (still.half() ? config.vocabulary_size * h * c : 0);
  const std::int64_t own = 2 * rows * inner * batch.target_length * fp32;
  parts.cache = config.decoder_layers * (own + 2 * source * inner * fp32);
  parts.workspace = own / 2;  // beams change places: one cache stands twice
  parts.logits = rows * config.vocabulary_size * (fp32 + (still.half() ? c : 0));
  return parts;
}

}  // namespace gpuhpc
