#pragma once
// Differentiable building blocks of the models. Legend: T tokens, H hidden size, A heads, D head
// size, B sequences.
#include <gpuhpc/nn/encoder_config.hpp>
#include <gpuhpc/nn/packed.hpp>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpuhpc {

// A leaf tensor and its Hugging Face name without model prefix, e.g.
// "encoder.layer.0.attention.self.query.weight".
struct NamedParameter {
  std::string name;
  at::Tensor value;  // fp32; requires_grad says whether it is trained
};

// x (T,in) W^T [+ b] with W (out,in); an undefined b is none. The product in `compute`, gradients
// of W and b in fp32. Returns (T,out) in `compute`.
at::Tensor mixed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::ScalarType compute);

// Several linears of one input as one product, outputs side by side: (T, sum of outs) in `compute`.
// Biases: as many as weights, or none.
at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases, at::ScalarType compute);

// What a product of LibTorch's multiplies in place of `values`: fp32 where this processor would
// take minutes for seconds (bf16 without instructions for it) or sums overflow (fp16), else
// themselves.
at::Tensor product_operand(const at::Tensor& values);

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (Zhang and Sennrich 2019): T5's
// norm.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// What attention adds to scores by distance, (A, 2 reach - 1): column reach - 1 + distance, out of
// the learned `table` (buckets, A).
at::Tensor distance_bias(const at::Tensor& table, const DistanceBuckets& buckets,
                         std::int64_t reach);

struct AttentionOptions {
  double divisor = 1;   // of the products of queries and keys
  bool causal = false;  // the keys behind a query's own place do not count
  // Self attention, without bias and scores: keys farther from a query's place do not count.
  std::optional<std::int64_t> window = {};
  at::Tensor bias = {};  // (A, 2 reach - 1) fp32, see distance_bias(); undefined: none
  // Products (..,A,Lq,Lk) of divided queries (..,A,Lq,D) and keys (..,A,Lk,D), of a sequence or of
  // several padded to one length -> what stands in their place. Empty: they themselves.
  std::function<at::Tensor(const at::Tensor& products, const at::Tensor& queries,
                           const at::Tensor& keys)>
      scores = {};
  // on the probabilities; on CUDA its random numbers may come from LibTorch's own generator
  double dropout = 0;
  std::optional<at::Generator> generator = {};
};
// Softmax attention (Vaswani et al. 2017, eq. 1) of each sequence's queries over the keys of the
// same sequence; self attention where both offsets are the same, else cross attention. q (Tq,A,D),
// k and v (Tk,A,D), D being any size -> (Tq, A D) in the type of q.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                     const AttentionOptions& options);

// attention() of sequences over themselves. qkv (T, 3 A D): queries, keys and values side by side,
// of `heads` heads each -> (T, A D).
at::Tensor self_attention(const at::Tensor& qkv, std::int64_t heads, const PackedOffsets& offsets,
                          const AttentionOptions& options);

// Rows to unit length, differentiable; a zero row stays zero.
at::Tensor unit_rows(const at::Tensor& rows);

// A seeded generator for dropout on that device.
at::Generator make_generator(at::Device device, std::uint64_t seed);
// Zeroes elements with probability `rate`, scales the rest by 1/(1-rate); rate 0 is the identity.
at::Tensor seeded_dropout(const at::Tensor& x, double rate,
                          const std::optional<at::Generator>& generator);

// Fills parameters: matrices from N(0, deviation(name)^2), vectors called "...weight" with 1, other
// vectors with 0. The same numbers on every device.
void initialise(const std::vector<NamedParameter>& parameters,
                const std::function<double(const std::string& name)>& deviation,
                std::uint64_t seed);
// T5's deviations (Mesh TensorFlow's, as transformers has them) by the parameter's name.
struct T5Sizes {
  std::int64_t hidden = 0, heads = 0, head_size = 0, intermediate = 0;
  double factor = 1;  // "initializer_factor"
  double deviation(const std::string& name) const;
};

}  // namespace gpuhpc
