#pragma once
// The pieces of a transformer encoder's forward pass on packed tokens, one table of functions per
// instruction set. Every row's result depends on that row alone (attention: on its document alone),
// never on how rows were grouped into calls: the same document gives the same bits in any batch.
// Different levels round differently.
//
// T, the type of activations, is float or BFloat16; W, of weights and of what layer_norm() leaves
// for linear(), is T, or SplitBFloat16 beside float, or Int8 beside BFloat16. Buffers of rows must
// hold round_up(rows, 32) rows: kernels may read and write the extra rows, whose values mean
// nothing; linear() and accumulate() of fp32 do not touch them. Buffers begin on 64-byte lines;
// strides are in elements and multiples of 32.
//
// Int8: layer_norm() leaves integers and the row's scale behind them (int8_stride()), the largest
// size of the row over 127; what stands between the last column and the scale means nothing.
// accumulate() makes integers of its rows on the way, each in pieces of int8_piece() columns that
// have a scale of their own: from 0 to 255 between the piece's smallest and largest number (and
// 0), since what gelu leaves has few numbers below 0. Sums of integers are exact. Products with a
// part of k (first_k, depth) and rows unevenly apart (k_step, row_step) are for the other types. A
// value that is not finite makes the scale, and so the whole row, not finite.
#include <cstddef>
#include <cstdint>

#include "gpuhpc/kernels/bf16.hpp"
#include "gpuhpc/kernels/isa.hpp"
#include "gpuhpc/kernels/packed_matrix.hpp"

namespace gpuhpc::kernels {

enum class Activation { none, gelu /* erf */, gelu_tanh, relu };

// Memory that a kernel may ask for while it multiplies: the weights that come next.
struct Prefetch {
  const std::byte* from = nullptr;
  std::int64_t bytes = 0;
};

// output[:, 0:32*panels) = activation(input x weight[:, panels from first_panel] + bias), rounded
// to T.
template <typename T, typename W = T>
struct LinearCall {
  const W* input = nullptr;  // (rows, weight->rows)
  std::int64_t input_stride = 0, rows = 0;
  const PackedMatrix<W>* weight = nullptr;
  std::int64_t first_panel = 0, panels = 0;
  const float* bias = nullptr;  // (weight->columns)
  Activation activation = Activation::none;
  T* output = nullptr;
  std::int64_t output_stride = 0;
  Prefetch next = {};
  // rows of the weight that count (multiples of 32; depth 0: all); input begins at first_k
  std::int64_t first_k = 0, depth = 0;
};

// output[:, 0:32*panels) += input x weight[:, panels from first_panel], in fp32.
template <typename T, typename W = T>
struct AccumulateCall {
  const T* input = nullptr;  // (rows, weight->rows)
  std::int64_t input_stride = 0, rows = 0;
  const PackedMatrix<W>* weight = nullptr;
  float* output = nullptr;  // (rows, 32*panels)
  std::int64_t output_stride = 0;
  Prefetch next = {};
  std::int64_t first_panel = 0, panels = 0;  // panels 0: all
  std::int64_t first_k = 0, depth = 0;       // as in LinearCall
  bool overwrite = false;                    // output = instead of +=
  std::int64_t k_step = 32;                  // elements from 32 columns of the input to the next 32
  // elements from 32 rows of the input to the next 32; 0: rows are evenly apart
  std::int64_t row_step = 0;
};

// The panels of a call and their depth, with 0 resolved.
template <typename Call>
std::int64_t panels_of(const Call& call) {
  return call.panels > 0 ? call.panels : call.weight->panels();
}
template <typename Call>
std::int64_t depth_of(const Call& call) {
  return call.depth > 0 ? call.depth : call.weight->rows;
}

// Columns of accumulate()'s rows that share a scale: all, or of more than 1024 even parts.
inline std::int64_t int8_piece(std::int64_t columns) {
  const std::int64_t pieces = (columns + 1023) / 1024;
  return round_up((columns + pieces - 1) / pieces, kInt8Depth);
}

// Attention inside one document: softmax((Q K^T + start) * scale) V of every head. `qkv` points at
// the document's first token; round_up(tokens, 32) rows from there are readable.
template <typename T>
struct AttentionCall {
  // (tokens, stride): queries from column 0, keys from `key_column`, values from `value_column`
  const T* qkv = nullptr;
  std::int64_t qkv_stride = 0, key_column = 0, value_column = 0;
  std::int64_t tokens = 0, heads = 0, head_size = 0;
  float scale = 1;
  T* output = nullptr;  // (tokens, heads * head_size), only `tokens` rows are written
  std::int64_t output_stride = 0;
  std::byte* scratch = nullptr;  // attention_scratch_bytes()
  // (round_up(tokens, 32), start_stride) what the scores start from, `start_head` from one head's
  // to the next one's; null: zeros. Columns up to round_up(tokens, 32) are read. Stride -1: a
  // number for each distance of the key from the query, `start` pointing at distance 0.
  const float* start = nullptr;
  std::int64_t start_stride = 0, start_head = 0;
  // Only these queries are answered (queries 0: all): layers that see near keys alone go through a
  // document in pieces. first_query is a multiple of 32. The training kernels answer all.
  std::int64_t first_query = 0, queries = 0;
  std::int64_t last_query() const { return queries > 0 ? first_query + queries : tokens; }
};
std::int64_t attention_scratch_bytes(std::int64_t tokens, std::int64_t head_size);

// Scores of up to 32 queries and 32 keys from their products with relative positions: the column of
// query q and key k depends on k - q, scores[q][k] = to_position[q][c] + from_position[k][c], c =
// columns[k - q] - first_column.
struct RelativeScoresCall {
  // (32, stride), of the queries; 32 floats before and behind are readable
  const float* to_position = nullptr;
  const float* from_position = nullptr;  // (32, stride), of the keys; likewise
  std::int64_t stride = 0, queries = 0, keys = 0;
  const std::int32_t* columns = nullptr;
  std::int64_t first_column = 0;
  bool consecutive = false;  // columns[i] = columns[0] - i for every i that occurs
  float* scores = nullptr;   // (32, 32), also those beyond queries and keys may be written
  std::int64_t scores_stride = 0;
};

// rows = layer_norm(rows) * gamma + beta, copied to `output` rounded to T; then `next_bias` is
// added to the fp32 rows, which are the start value of the next accumulation. Columns beyond
// `columns` are left alone. `keep`: the fp32 rows stay as they are.
template <typename T>
struct LayerNormCall {
  float* values = nullptr;
  std::int64_t stride = 0, rows = 0, columns = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
  const float* next_bias = nullptr;  // may be null
  T* output = nullptr;
  std::int64_t output_stride = 0;
  bool keep = false;
  // Int8 alone: (columns) what the copy is multiplied by before it becomes integers; null: ones
  const float* shares = nullptr;
};

template <typename T, typename W = T>
struct EncoderKernels {
  void (*linear)(const LinearCall<T, W>&) = nullptr;
  void (*accumulate)(const AccumulateCall<T, W>&) = nullptr;
  void (*attention)(const AttentionCall<T>&) = nullptr;
  void (*relative_scores)(const RelativeScoresCall&) = nullptr;
  void (*layer_norm)(const LayerNormCall<W>&) = nullptr;
  // Bracket the calls on each thread (AMX tile configuration).
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

// The best kernels of that level; what a level does not have comes from the levels below. Throws
// configuration_error when the machine does not have the level.
template <typename T, typename W = T>
EncoderKernels<T, W> encoder_kernels(Isa isa);
template <>
EncoderKernels<float> encoder_kernels<float>(Isa isa);
template <>
EncoderKernels<BFloat16> encoder_kernels<BFloat16>(Isa isa);
template <>
EncoderKernels<float, SplitBFloat16> encoder_kernels<float, SplitBFloat16>(Isa isa);
template <>
EncoderKernels<BFloat16, Int8> encoder_kernels<BFloat16, Int8>(Isa isa);

// begin() now, end() at the end of the scope.
template <typename T, typename W = T>
class KernelScope {
 public:
  explicit KernelScope(const EncoderKernels<T, W>& kernels) : kernels_(kernels) {
    kernels_.begin();
  }
  ~KernelScope() { kernels_.end(); }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  const EncoderKernels<T, W>& kernels_;
};

}  // namespace gpuhpc::kernels
