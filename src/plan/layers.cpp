#include "layers.hpp"

#include <algorithm>
#include <initializer_list>

#include "gpuhpc/nn/padded_attention.hpp"

namespace gpuhpc {
namespace {

// Dropout on a processor decides by places, and keeps nothing.
bool keeps_masks(const PlannedWork& work, double rate) { return work.cuda && rate > 0; }

// Sequences whose scores plain operators make at once.
std::int64_t at_once(const PlannedWork& work, const Rows& q, const Rows& k) {
  return work.cuda ? std::clamp<std::int64_t>(most_padded_scores / (q.length * k.length), 1,
                                              std::max<std::int64_t>(q.documents, 1))
                   : 1;
}

std::int64_t groups(const PlannedWork& work, const Rows& q, const Rows& k) {
  const std::int64_t together = at_once(work, q, k);
  return (q.documents + together - 1) / together;
}

// What attention keeps beside queries, keys and values.
enum class Kept {
  scores,      // plain operators
  logarithms,  // a fused kernel on a GPU, or LibTorch's flash kernel for processors, which wants
               // fp32
  nothing,     // a processor's own attention with a bias or dropout: all is computed again
};

// Softmax attention of sequences over sequences.
struct Attention {
  const PlannedWork& work;
  std::int64_t heads, inner;  // inner: heads x head size
  Kept what;

  // Beside queries, keys and values: of one document, and of all.
  void keep(Tally& tally, const Rows& q, const Rows& k, bool causal) const {
    const std::int64_t c = work.value_bytes(), scores = heads * q.length * k.length;
    if (what == Kept::nothing) return;
    if (what == Kept::logarithms) {
      if (!work.cuda && work.half())
        tally.add(q.rows() * inner * fp32, 2).add(k.rows() * inner * fp32, 2);
      tally.add(q.length * heads * fp32, q.documents);
      return;
    }
    tally.add(scores * fp32, q.documents);  // softmax
    if (keeps_masks(work, work.attention_dropout)) tally.add(scores * fp32, q.documents);
    if (work.attention_dropout > 0 || work.half()) tally.add(scores * c, q.documents);  // shares
    if (causal) tally.add(q.length * k.length, groups(work, q, k));
  }
  // Scores, and what is made of them, of the documents at once.
  std::int64_t moment(const Rows& q, const Rows& k) const {
    if (what != Kept::scores) return 0;
    return at_once(work, q, k) * heads * q.length * k.length * (3 * fp32 + work.value_bytes());
  }
  bool keeps_projections() const { return what != Kept::logarithms || work.cuda || !work.half(); }
};

// Products on a processor's packed kernels keep neither joined nor cast weights.
bool packed(const PlannedWork& work, std::initializer_list<std::int64_t> sizes) {
  return work.cpu_layers() &&
         std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size % 32 == 0; });
}

// DeBERTa's positions: keys and queries of the table's rows, and where each pair of places looks.
void keep_positions(Tally& tally, LayerBytes& bytes, const EncoderConfig& e,
                    const PlannedWork& work, const Rows& rows) {
  const RelativeAttention& relative = *e.relative;
  const std::int64_t c = work.value_bytes(), h = e.hidden_size, table = relative.rows() * h;
  if (work.dropout > 0) tally.add(table * fp32, keeps_masks(work, work.dropout) ? 2 : 1);
  tally.add(table * c, 2);                   // their keys and queries
  if (work.half()) tally.add(table * c, 2);  // the table, cast, of each product
  if (work.half() && !packed(work, {h})) bytes.copies += 2 * h * h * c;
  // Rows of the table, of each group; of each document, both products that are looked up in.
  const std::int64_t used = relative.row(rows.length - 1) + 1 - relative.row(1 - rows.length);
  tally.add(rows.length * rows.length * 8, groups(work, rows, rows));
  tally.add(e.heads * rows.length * used * c, 2 * rows.documents);
}

LayerBytes cpu_encoder_layer(const EncoderConfig& e, const PlannedWork& work, const Rows& rows,
                             std::int64_t behind) {
  const std::int64_t c = work.value_bytes(), h = e.hidden_size, f = e.intermediate_size;
  const auto padded = [](std::int64_t count) { return (count + 31) / 32 * 32 + 32; };
  const std::int64_t t = padded(rows.rows()), r = padded(behind), layer = 4 * h * h + 2 * h * f;
  LayerBytes bytes;
  Tally kept(false), input(false), transient(false);
  kept.add(t * 3 * h * c).add(r * h * c, 2).add(r * f * c, 2).add(r * h * fp32, 2);
  kept.add(r * fp32, 2).add(r * h * c);  // the rounded output is the next layer's input
  input.add(t * h * c).add(rows.rows() * h * fp32);
  transient.add(r * h * fp32, 2).add(r * h * c).add(r * f * c);
  // Behind attention's own gradient; all gradients of the layer are handed over together.
  transient.add(t * h * c).add(t * 3 * h * c).add(layer * fp32);
  bytes.kept = kept.sum(), bytes.input = input.sum(), bytes.transient = transient.sum();
  bytes.forward = kept.sum();
  return bytes;
}

// Of a local layer, whose scores stand in memory, piece by piece: all of one document.
std::int64_t near_scores(const EncoderConfig& e, std::int64_t length) {
  const std::int64_t window = e.modern->window, step = std::max<std::int64_t>(64, 2 * window);
  std::int64_t pairs = 0;
  for (std::int64_t from = 0; from < length; from += step) {
    const std::int64_t to = std::min(length, from + step);
    pairs +=
        (to - from) * (std::min(length, to + window) - std::max<std::int64_t>(0, from - window));
  }
  return e.heads * pairs;
}

LayerBytes modern_layer_bytes(const EncoderConfig& e, const PlannedWork& work, const Rows& rows,
                              std::int64_t behind, std::int64_t index) {
  const std::int64_t c = work.value_bytes(), h = e.hidden_size, f = e.intermediate_size,
                     t = rows.rows(), r = behind;
  const bool near = e.modern->local[static_cast<std::size_t>(index)] &&
                    !(work.cuda && (work.half() || rows.length <= e.modern->window + 1));
  const bool cast = work.half() && !packed(work, {h, f});
  const Attention attention{work, e.heads, h,
                            near                                       ? Kept::scores
                            : !work.cuda && work.attention_dropout > 0 ? Kept::nothing
                                                                       : Kept::logarithms};
  LayerBytes bytes;
  Tally kept(work.cuda), transient(work.cuda);
  if (cast)
    bytes.copies = held_bytes(4 * h * h * c, work.cuda) + held_bytes(3 * h * f * c, work.cuda);
  kept.add(t * h * fp32).add(t * h * c).add(t * fp32, 2);  // the input, and behind its norm
  if (attention.keeps_projections()) kept.add(t * 3 * h * c).add(t * h * c, near ? 3 : 2);
  std::int64_t scores = 0;  // of one document
  if (near) {
    scores = near_scores(e, rows.length);
    kept.add(scores * fp32, rows.documents).add(scores / e.heads, rows.documents);
    if (work.half()) kept.add(scores * c, rows.documents);
    if (work.attention_dropout > 0) kept.add(scores * fp32, (work.cuda ? 2 : 1) * rows.documents);
  } else {
    attention.keep(kept, rows, rows, false);
  }
  kept.add(t * h * c);  // context
  if (r != t) kept.add(r * h * c);
  if (keeps_masks(work, work.dropout)) kept.add(r * h * c, 2);
  kept.add(r * h * fp32).add(r * h * c).add(r * fp32, 2);  // attention's sum, and behind its norm
  kept.add(r * 2 * f * c).add(r * f * c, 2);               // activation, gate, their product
  transient.add(r * h * fp32, 2).add(r * h * c).add(r * f * c, 3);
  transient.add(2 * h * f * (fp32 + c * cast));
  bytes.kept = kept.sum(), bytes.input = held_bytes(t * h * fp32, work.cuda);
  bytes.transient = transient.sum();
  bytes.forward = Tally(work.cuda)
                      .add(t * h * fp32, 3)
                      .add(t * std::max(5 * h, 4 * f) * c)
                      .add(scores * (3 * fp32 + c))
                      .sum() +
                  bytes.copies;
  return bytes;
}

}  // namespace

std::int64_t held_bytes(std::int64_t bytes, bool cuda) {
  if (bytes <= 0) return 0;
  if (cuda) return (bytes + 511) / 512 * 512;
  if (bytes < (1 << 20)) return (bytes + 63) / 64 * 64;
  std::int64_t step = 1;
  while (2 * step <= bytes) step *= 2;
  step /= 8;
  return (bytes + step - 1) / step * step;
}

LayerBytes encoder_layer(const EncoderConfig& e, const PlannedWork& work, const Rows& rows,
                         std::int64_t behind, std::int64_t index) {
  if (e.modern) return modern_layer_bytes(e, work, rows, behind, index);
  if (work.cpu_layers() && !e.relative && e.hidden_size % 32 == 0 && e.intermediate_size % 32 == 0)
    return cpu_encoder_layer(e, work, rows, behind);
  const std::int64_t c = work.value_bytes(), h = e.hidden_size, f = e.intermediate_size,
                     t = rows.rows(), r = behind;
  const bool biased = e.distances.has_value(),
             own = !work.cuda && (biased || work.attention_dropout > 0);
  const Attention attention{work, e.heads, h,
                            e.relative || (biased && work.cuda) ? Kept::scores
                            : own                               ? Kept::nothing
                                                                : Kept::logarithms};
  LayerBytes bytes;
  Tally kept(work.cuda), transient(work.cuda);
  // One cat of three matrices whatever the type; the others are cast where the type is another.
  const bool copied = !packed(work, {h, f});
  if (copied) bytes.copies = held_bytes(3 * h * h * c, work.cuda);
  if (work.half() && copied)
    bytes.copies += held_bytes(h * h * c, work.cuda) + 2 * held_bytes(h * f * c, work.cuda);
  if (work.half()) kept.add(t * h * c);  // the input, cast
  if (attention.keeps_projections()) kept.add(t * 3 * h * c);
  attention.keep(kept, rows, rows, false);
  if (e.relative) keep_positions(kept, bytes, e, work, rows);
  kept.add(t * h * c);              // context
  if (r != t) kept.add(r * h * c);  // of first tokens
  if (keeps_masks(work, work.dropout)) kept.add(r * h * c, 2);
  kept.add(r * h * fp32, 2).add(r * fp32, 4);  // sums before the norms, and their moments
  kept.add(r * h * c);                         // what the feed-forward part reads
  kept.add(r * f * c, e.activation == Activation::relu ? 1 : 2);
  if (!work.half()) kept.add(r * h * fp32);  // the output, which the next layer reads as it is
  transient.add(r * h * fp32, 2)
      .add(r * h * c)
      .add(r * f * c)
      .add(h * f * (fp32 + c * (work.half() && copied)));
  bytes.kept = kept.sum(), bytes.input = held_bytes(t * h * fp32, work.cuda);
  bytes.transient = transient.sum();
  bytes.forward = Tally(work.cuda)
                      .add(t * h * fp32, 3)
                      .add(t * std::max(4 * h, 2 * f) * c)
                      .add(attention.moment(rows, rows))
                      .sum() +
                  bytes.copies;
  return bytes;
}

LayerBytes t5_layer_bytes(const T5Config& config, const PlannedWork& work, const Rows& source,
                          const Rows& target, bool decoder) {
  const std::int64_t c = work.value_bytes(), h = config.hidden_size, i = config.inner_size(),
                     f = config.intermediate_size;
  const Rows& own = decoder ? target : source;
  const std::int64_t t = own.rows(), s = source.rows();
  // fp16: the second product of the feed-forward part is fp32.
  const std::int64_t second = work.precision == "fp16" ? fp32 : c;
  const bool drops = work.dropout > 0, masks = keeps_masks(work, work.dropout);
  const Attention self{work, config.heads, i, work.cuda ? Kept::scores : Kept::nothing},
      cross{work, config.heads, i,
            !work.cuda && work.attention_dropout > 0 ? Kept::nothing : Kept::logarithms};
  LayerBytes bytes;
  Tally kept(work.cuda), copies(work.cuda), transient(work.cuda);
  const auto norm = [&] {  // its input, that without the weight, and its output for the product
    kept.add(t * h * fp32, work.cuda ? 1 : 2).add(t * h * c).add(t * fp32, 2);
  };
  const auto output = [&] {
    kept.add(t * i * c);  // context
    if (work.half()) copies.add(h * i * c);
    if (masks) kept.add(t * h * c);
  };
  norm();
  kept.add(t * 3 * i * c);
  copies.add(3 * i * h * c);
  self.keep(kept, own, own, decoder);
  output();
  if (decoder) {
    norm();
    if (work.half()) copies.add(i * h * c), kept.add(s * h * c);
    copies.add(2 * i * h * c);
    if (cross.keeps_projections()) kept.add(t * i * c).add(s * 2 * i * c);
    cross.keep(kept, own, source, false);
    output();
  }
  norm();
  if (config.gated)
    kept.add(t * 2 * f * second).add(t * f * second, masks ? 3 : 2);
  else
    kept.add(t * f * second, masks ? 3 : drops ? 2 : 1);
  if (config.gated)
    copies.add(2 * h * f * c);
  else if (work.half())
    copies.add(h * f * c);
  if (second != fp32) copies.add(h * f * c);
  if (masks) kept.add(t * h * second);
  if (work.precision == "fp16") kept.add(t * h * fp32, decoder ? 3 : 2);  // sums before the clamp
  transient.add(t * h * fp32, 2).add(t * f * second).add(h * f * fp32);
  if (work.half() && !packed(work, {h, i, f})) transient.add(h * f * second);
  bytes.kept = kept.sum();
  if (!packed(work, {h, i, f})) bytes.copies = copies.sum();
  bytes.input = held_bytes(t * h * fp32, work.cuda), bytes.transient = transient.sum();
  bytes.forward = Tally(work.cuda)
                      .add(t * h * fp32, 3)
                      .add(t * std::max(4 * i, (config.gated ? 4 : 2) * f) * c)
                      .add(self.moment(own, own) + (decoder ? cross.moment(own, source) : 0))
                      .sum() +
                  bytes.copies;
  return bytes;
}

HeadBytes vocabulary_head(const PlannedWork& work, std::int64_t rows, std::int64_t hidden,
                          std::int64_t vocabulary, bool masked_head) {
  const std::int64_t c = work.value_bytes(), words = vocabulary * hidden;
  HeadBytes bytes;
  Tally kept(work.cuda), copies(work.cuda);
  const bool cast = work.half() && !packed(work, {hidden, vocabulary});
  if (cast) copies.add(words * c);
  if (work.half()) kept.add(rows * hidden * c);
  if (masked_head) {  // dense, activation, norm
    kept.add(rows * hidden * fp32, 3).add(rows * hidden * c, 2);
    if (work.half() && !packed(work, {hidden})) copies.add(hidden * hidden * c);
  }
  const auto table = [&](std::int64_t each) {
    return held_bytes(rows * vocabulary * each, work.cuda);
  };
  // Forward: the products, in fp32, their logarithms. Backward: the logarithms, the gradients of
  // the loss and of the products; label smoothing adds a table. Then the word table's gradient.
  const std::int64_t forward = table(fp32) + table(fp32) + (work.half() ? table(c) : 0),
                     backward = (work.label_smoothing > 0 ? 4 : 3) * table(fp32),
                     of_words = (work.half() ? table(c) + table(fp32) : table(fp32)) +
                                held_bytes(words * fp32, work.cuda) +
                                (cast ? held_bytes(words * c, work.cuda) : 0);
  bytes.copies = copies.sum(), bytes.kept = kept.sum();
  bytes.forward = forward, bytes.peak = std::max({forward, backward, of_words});
  return bytes;
}

}  // namespace gpuhpc
