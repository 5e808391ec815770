#pragma once
// ModernBERT's layer (Warner et al. 2024) out of differentiable operators: any device, any type,
// dropout. Private to room nn.
#include <gpuhpc/nn/encoder.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace gpuhpc {

// Places of a layer's parameters; the first layer lacks the last one.
enum ModernParameter : std::size_t {
  modern_qkv,        // (3H,H)
  modern_attention,  // (H,H)
  modern_wide_norm,  // (H)
  modern_up,         // (2F,H): what the activation takes, then its gate
  modern_down,       // (H,F)
  modern_norm_before,
  modern_parameters
};

// Of each token's place and each of D/2 pairs: (T,1,D/2) fp32, rounded as transformers rounds them.
struct Rotation {
  at::Tensor cosines, sines;
};
Rotation rotation(const at::Tensor& positions, double theta, std::int64_t head_size);

// Layer norm without bias, fp32.
at::Tensor modern_norm(const EncoderConfig& config, const at::Tensor& rows,
                       const at::Tensor& weight);

// hidden (T,H) fp32 -> (T,H) fp32; `firsts` as in plain_layer(). `local`: sees near keys alone.
at::Tensor modern_layer(const EncoderConfig& config, bool local, const Rotation& turn,
                        const std::vector<at::Tensor>& parameters, const at::Tensor& hidden,
                        const PackedTokens& batch, const ForwardOptions& options,
                        const at::Tensor& firsts);

}  // namespace gpuhpc
