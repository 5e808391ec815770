#include "gpuhpc/nn/cpu_t5.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "cpu_products.hpp"
#include "cpu_t5_weights.hpp"

namespace gpuhpc {
namespace {

using kernels::AlignedBuffer;
using kernels::BFloat16;
using kernels::kPanel;
using kernels::PackedMatrix;
using kernels::Prefetch;
using kernels::round_up;

constexpr std::int64_t page_tokens = 32;    // tokens of a text whose keys and values are one piece
constexpr std::int64_t rows_at_once = 384;  // tokens of sources whose activations fit the cache

// Keys and values of sources that were encoded together: (layer, keys and values, A, tokens, D).
template <typename T>
struct SourceBlock {
  std::int64_t rows = 0;
  AlignedBuffer<T> values;
};

// Rows on their way through layers, whatever they are.
template <typename T>
class Stream {
 public:
  explicit Stream(const T5Weights<T>& weights) : w_(weights) {}

  // `rows` rows, of which row i becomes the vector of token(i).
  template <typename Token>
  void begin(std::int64_t rows, const Token& token) {
    rows_ = rows;
    const std::int64_t all = round_up(rows, 32);
    residual_.resize(all * w_.width);
    input_.resize(all * w_.width);
    heads_.resize((all + 32) * 3 * w_.inner);  // attention reads behind a source
    context_.resize(all * w_.inner);
    const std::int64_t hidden = w_.config.hidden_size;
    const float* words = w_.words.template const_data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t id = token(r);
      if (id < 0 || id >= w_.config.vocabulary_size)
        throw internal_error("token id {} of a vocabulary of {}", id, w_.config.vocabulary_size);
      std::copy_n(words + id * hidden, hidden, residual_.data() + r * w_.width);
    }
    std::fill_n(residual_.data() + rows * w_.width, (all - rows) * w_.width, 0.0F);
  }
  std::int64_t rows() const { return rows_; }
  T* heads() { return heads_.data(); }
  T* context() { return context_.data(); }

  void norm(const std::vector<float>& gamma) {
    w_.decoder_kernels.rms_norm({residual_.data(), w_.width, rows_, w_.config.hidden_size,
                                 gamma.data(), static_cast<float>(w_.config.epsilon), input_.data(),
                                 w_.width});
  }
  // Panels [first, first + panels) of input x weight to `output`.
  void multiply(const PackedMatrix<T>& weight, std::int64_t first, std::int64_t panels, T* output,
                std::int64_t stride, Prefetch next = {}) {
    w_.encoder_kernels.linear({input_.data(), w_.width, rows_, &weight, first, panels,
                               w_.zeros.data(), kernels::Activation::none, output, stride, next});
  }
  void multiply(const SlicedWeight<T>& weight) {
    for (std::int64_t s = 0; s < weight.slices.count(); ++s)
      multiply(weight.packed, weight.slices.first(s), weight.slices.size(s),
               heads_.data() + weight.slices.first(s) * kPanel, weight.packed.columns,
               weight.next[static_cast<std::size_t>(s)]);
  }
  // residual += context x weight
  void add_context(const SlicedWeight<T>& weight) {
    accumulate(weight, context_.data(), w_.inner, residual_.data(), w_.width, false);
  }
  // output (rows, columns) = input x weight
  void scores(const SlicedWeight<T>& weight, float* output) {
    accumulate(weight, input_.data(), w_.width, output, weight.packed.columns, true);
  }
  // Slice by slice of the wide dimension, whose activations are never stored whole.
  void feed_forward(const T5Part<T>& part) {
    norm(part.norm);
    const Slices& slices = part.in.slices;
    const std::int64_t stride = slices.each * kPanel;
    wide_.resize(kRowBlock * stride);
    gate_.resize(kRowBlock * stride);
    for (std::int64_t s = 0; s < slices.count(); ++s)
      for (std::int64_t row = 0; row < rows_; row += kRowBlock) {
        const std::int64_t rows = std::min(kRowBlock, rows_ - row);
        const auto next = [&](const SlicedWeight<T>& weight, std::int64_t slice) {
          return share(weight.next[static_cast<std::size_t>(slice)], row, rows, rows_);
        };
        const auto up = [&](const SlicedWeight<T>& weight, kernels::Activation activation,
                            T* output) {
          w_.encoder_kernels.linear({input_.data() + row * w_.width, w_.width, rows, &weight.packed,
                                     slices.first(s), slices.size(s), w_.zeros.data(), activation,
                                     output, stride, next(weight, s)});
        };
        up(part.in, kernel_activation(w_.config.activation), wide_.data());
        if (w_.config.gated) {
          up(part.gate, kernels::Activation::none, gate_.data());
          w_.decoder_kernels.gate(
              {wide_.data(), gate_.data(), stride, rows, slices.size(s) * kPanel});
        }
        const SlicedWeight<T>& out = part.out[static_cast<std::size_t>(s)];
        kernels::AccumulateCall<T> down{
            wide_.data(), stride, rows, &out.packed, residual_.data() + row * w_.width, w_.width};
        for (std::int64_t i = 0; i < out.slices.count(); ++i) {
          down.first_panel = out.slices.first(i), down.panels = out.slices.size(i);
          down.output = residual_.data() + row * w_.width + down.first_panel * kPanel;
          down.next = next(out, i);
          w_.encoder_kernels.accumulate(down);
        }
      }
  }

 private:
  void accumulate(const SlicedWeight<T>& weight, const T* input, std::int64_t stride, float* output,
                  std::int64_t output_stride, bool overwrite) {
    for (std::int64_t s = 0; s < weight.slices.count(); ++s) {
      kernels::AccumulateCall<T> call{input,
                                      stride,
                                      rows_,
                                      &weight.packed,
                                      output + weight.slices.first(s) * kPanel,
                                      output_stride,
                                      weight.next[static_cast<std::size_t>(s)]};
      call.first_panel = weight.slices.first(s), call.panels = weight.slices.size(s);
      call.overwrite = overwrite;
      w_.encoder_kernels.accumulate(call);
    }
  }

  const T5Weights<T>& w_;
  std::int64_t rows_ = 0;
  AlignedBuffer<float> residual_;             // (rows, width)
  AlignedBuffer<T> input_, heads_, context_;  // (rows, width), (rows, 3 inner), (rows, inner)
  AlignedBuffer<T> wide_, gate_;              // (rows of a block, slice of the wide dimension)
};

template <typename T>
class Texts final : public CpuT5Texts {
 public:
  Texts(const T5Weights<T>& weights, std::int64_t beams)
      : w_(weights), beams_(beams), stream_(weights) {}

  std::vector<std::int64_t> add(const PackedIds& sources) override {
    const kernels::KernelScope<T> scope(w_.encoder_kernels);
    std::vector<std::int64_t> numbers;
    for (std::int64_t first = 0, last = 0; first < sources.size(); first = last) {
      std::int64_t tokens = 0;
      while (last < sources.size() &&
             (last == first || tokens + sources.length(last) <= rows_at_once))
        tokens += sources.length(last++);
      const auto block = encode(sources, first, last);
      for (std::int64_t b = first, row = 0; b < last; row += sources.length(b++)) {
        if (free_.empty()) free_.push_back(std::ssize(sources_)), sources_.emplace_back();
        numbers.push_back(free_.back());
        free_.pop_back();
        Source& source = at(numbers.back());
        source.block = block, source.first = row, source.tokens = sources.length(b);
        source.histories.assign(1, {});
      }
    }
    return numbers;
  }

  void remove(std::int64_t source) override {
    at(source) = {};
    free_.push_back(source);
  }

  Scores step(std::span<const Row> rows) override {
    const kernels::KernelScope<T> scope(w_.encoder_kernels);
    const std::int64_t count = std::ssize(rows);
    stream_.begin(count, [&](std::int64_t r) { return rows[static_cast<std::size_t>(r)].token; });
    scores_.resize(round_up(count, 32) * w_.head.packed.columns);
    go_on(rows);
    for (std::size_t i = 0; i < w_.decoder_layers.size(); ++i) {
      const T5DecoderLayer<T>& layer = w_.decoder_layers[i];
      stream_.norm(layer.attention.norm);
      stream_.multiply(layer.attention.in);
      keep(static_cast<std::int64_t>(i));
      for (const Group& group : groups_) attend_to_text(group, static_cast<std::int64_t>(i));
      stream_.add_context(layer.attention.out[0]);
      stream_.norm(layer.source.norm);
      stream_.multiply(layer.source.in);
      for (const Group& group : groups_) attend_to_source(group, static_cast<std::int64_t>(i));
      stream_.add_context(layer.source.out[0]);
      stream_.feed_forward(layer.feed_forward);
    }
    stream_.norm(w_.text_norm);
    stream_.scores(w_.head, scores_.data());
    return {scores_.data(), w_.head.packed.columns};
  }

 private:
  using History = std::vector<std::uint8_t>;  // which of the beams' places holds each token's keys
  struct Source {
    std::shared_ptr<const SourceBlock<T>> block;
    std::int64_t first = 0, tokens = 0;  // in the block
    std::vector<History> histories;      // of each row
    // (layer, keys and values, A, page_tokens, beams, D)
    std::vector<std::unique_ptr<AlignedBuffer<T>>> pages;
  };
  // Rows of one source in a step, and where their keys are listed.
  struct Group {
    Source* source;
    std::int64_t row, rows, keys, source_keys;
  };
  Source& at(std::int64_t source) { return sources_.at(static_cast<std::size_t>(source)); }
  std::int64_t page_head() const { return page_tokens * beams_ * w_.head_size; }

  // Where the rows' keys are, at this token and before: the same in each layer.
  void go_on(std::span<const Row> rows) {
    groups_.clear(), keys_.clear();
    std::int64_t most = 0;
    for (std::int64_t first = 0, last = 0; first < std::ssize(rows); first = last) {
      const auto of = [&](std::int64_t r) { return rows[static_cast<std::size_t>(r)]; };
      while (last < std::ssize(rows) && of(last).source == of(first).source) ++last;
      Source& source = at(of(first).source);
      std::vector<History> histories;
      for (std::int64_t r = first; r < last; ++r) {
        histories.push_back(source.histories.at(static_cast<std::size_t>(of(r).parent)));
        histories.back().push_back(static_cast<std::uint8_t>(r - first));
      }
      source.histories = std::move(histories);
      const std::int64_t length = std::ssize(source.histories.front());
      if (length > w_.longest_text || last - first > beams_)
        throw internal_error("a decoder of {} tokens and {} beams is asked for more",
                             w_.longest_text, beams_);
      if (length > std::ssize(source.pages) * page_tokens)
        source.pages.push_back(std::make_unique<AlignedBuffer<T>>(
            std::ssize(w_.decoder_layers) * 2 * w_.config.heads * page_head()));
      Group group{&source, first, last - first, std::ssize(keys_), 0};
      for (const History& history : source.histories)
        for (std::int64_t t = 0; t < length; ++t)
          keys_.push_back(source.pages[static_cast<std::size_t>(t / page_tokens)]->data() +
                          (t % page_tokens * beams_ + history[static_cast<std::size_t>(t)]) *
                              w_.head_size);
      group.source_keys = std::ssize(keys_);
      for (std::int64_t t = 0; t < source.tokens; ++t)
        keys_.push_back(source.block->values.data() + (source.first + t) * w_.head_size);
      groups_.push_back(group);
      most = std::max({most, length, source.tokens});
    }
    attention_.resize(round_up(most, 16));
  }

  // The new tokens' keys and values to their pages.
  void keep(std::int64_t layer) {
    const std::int64_t values = w_.config.heads * page_head();
    for (const Group& group : groups_) {
      const std::int64_t place = std::ssize(group.source->histories.front()) - 1;
      T* const page = group.source->pages.back()->data() + layer * 2 * values;
      for (std::int64_t r = 0; r < group.rows; ++r)
        for (const std::int64_t part : {0, 1})
          for (std::int64_t head = 0; head < w_.config.heads; ++head)
            std::copy_n(stream_.heads() + (group.row + r) * 3 * w_.inner + (1 + part) * w_.inner +
                            head * w_.head_size,
                        w_.head_size,
                        page + part * values + head * page_head() +
                            (place % page_tokens * beams_ + r) * w_.head_size);
    }
  }

  kernels::CachedAttentionCall<T> attention_of(const Group& group, std::int64_t query_stride) {
    kernels::CachedAttentionCall<T> call;
    call.query = stream_.heads() + group.row * query_stride, call.query_stride = query_stride;
    call.queries = group.rows, call.heads = w_.config.heads, call.head_size = w_.head_size;
    call.output = stream_.context() + group.row * w_.inner, call.output_stride = w_.inner;
    call.scratch = attention_.data();
    return call;
  }
  void attend_to_text(const Group& group, std::int64_t layer) {
    kernels::CachedAttentionCall<T> call = attention_of(group, 3 * w_.inner);
    call.rows = keys_.data() + group.keys;
    call.keys = call.rows_stride = std::ssize(group.source->histories.front());
    call.head_step = page_head(), call.value_step = w_.config.heads * page_head();
    call.offset = layer * 2 * call.value_step;
    call.bias = w_.text_bias.at_distance_0() - (call.keys - 1);
    call.bias_step = w_.text_bias.values.columns;
    w_.decoder_kernels.attention(call);
  }
  void attend_to_source(const Group& group, std::int64_t layer) {
    kernels::CachedAttentionCall<T> call = attention_of(group, w_.inner);
    call.rows = keys_.data() + group.source_keys, call.keys = group.source->tokens;
    call.head_step = group.source->block->rows * w_.head_size;
    call.value_step = w_.config.heads * call.head_step;
    call.offset = layer * 2 * call.value_step;
    w_.decoder_kernels.attention(call);
  }

  std::shared_ptr<const SourceBlock<T>> encode(const PackedIds& sources, std::int64_t first,
                                               std::int64_t last) {
    const auto begin = [&](std::int64_t b) {
      return sources.offsets[static_cast<std::size_t>(b)] -
             sources.offsets[static_cast<std::size_t>(first)];
    };
    const std::int64_t tokens = begin(last);
    stream_.begin(tokens, [&](std::int64_t r) {
      return sources.token_ids[static_cast<std::size_t>(
          sources.offsets[static_cast<std::size_t>(first)] + r)];
    });
    std::int64_t longest = 0;
    for (std::int64_t b = first; b < last; ++b) longest = std::max(longest, sources.length(b));
    scratch_.resize(kernels::attention_scratch_bytes(longest, w_.head_size));
    for (const T5EncoderLayer<T>& layer : w_.layers) {
      stream_.norm(layer.attention.norm);
      stream_.multiply(layer.attention.in);
      for (std::int64_t b = first; b < last; ++b)
        w_.encoder_kernels.attention({stream_.heads() + begin(b) * 3 * w_.inner, 3 * w_.inner,
                                      w_.inner, 2 * w_.inner, sources.length(b), w_.config.heads,
                                      w_.head_size, 1.0F, stream_.context() + begin(b) * w_.inner,
                                      w_.inner, scratch_.data(), w_.source_bias.at_distance_0(), -1,
                                      w_.source_bias.values.columns});
      stream_.add_context(layer.attention.out[0]);
      stream_.feed_forward(layer.feed_forward);
    }
    stream_.norm(w_.source_norm);
    auto block = std::make_shared<SourceBlock<T>>();
    block->rows = round_up(tokens, 32);
    const std::int64_t head = block->rows * w_.head_size;
    block->values.resize(std::ssize(w_.decoder_layers) * 2 * w_.config.heads * head);
    T* to = block->values.data();
    for (const T5DecoderLayer<T>& layer : w_.decoder_layers)
      for (std::int64_t part = 0; part < 2 * w_.config.heads; ++part, to += head)
        stream_.multiply(layer.source_keys.packed, part * w_.head_size / kPanel,
                         w_.head_size / kPanel, to, w_.head_size);
    return block;
  }

  const T5Weights<T>& w_;
  std::int64_t beams_;
  Stream<T> stream_;
  std::vector<Source> sources_;
  std::vector<std::int64_t> free_;  // numbers without a source
  std::vector<Group> groups_;       // of the present step
  std::vector<const T*> keys_;
  AlignedBuffer<float> scores_, attention_;
  AlignedBuffer<std::byte> scratch_;
};

template <typename T>
class TypedT5 final : public CpuT5 {
 public:
  TypedT5(const T5& model, kernels::Isa isa, std::int64_t longest_source, std::int64_t longest_text)
      : weights_(model, isa, longest_source, longest_text) {}
  std::unique_ptr<CpuT5Texts> make_texts(std::int64_t beams) const override {
    return std::make_unique<Texts<T>>(weights_, beams);
  }

 private:
  T5Weights<T> weights_;
};

}  // namespace

std::unique_ptr<CpuT5> make_cpu_t5(const T5& model, CpuPrecision precision, kernels::Isa isa,
                                   std::int64_t longest_source, std::int64_t longest_text) {
  const at::NoGradGuard no_grad;
  if (precision == CpuPrecision::bf16)
    return std::make_unique<TypedT5<BFloat16>>(model, isa, longest_source, longest_text);
  return std::make_unique<TypedT5<float>>(model, isa, longest_source, longest_text);
}

}  // namespace gpuhpc
