#pragma once
// Masked-language models (Devlin et al. 2019, section 3.1): what stands at a masked place, out of
// the whole vocabulary. Folders of transformers' Bert-, Roberta- and MPNetForMaskedLM. Legend: T
// tokens, M masked places, H hidden size, V vocabulary.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"

namespace gpuhpc {

// Layers and width of a new BERT or RoBERTa: small, medium or large; heads of 64, four times the
// width in between (Turc et al. 2019; Devlin et al. 2019).
std::pair<std::int64_t, std::int64_t> new_bert_size(const std::string& name);

class MaskedLanguageHead : public HeadParameters {
 public:
  // New weights under the family's names: N(0, initializer_range^2), layer norm 1, biases 0.
  MaskedLanguageHead(const EncoderConfig& encoder, std::uint64_t seed, at::Device device);
  // The weights of a folder that has such a head; false, and nothing changed, where it has none. A
  // head with a part missing or misshaped is an input_error.
  bool load(const std::filesystem::path& weights_folder, const EncoderConfig& encoder);
  // norm(f(dense(hidden))) words^T + bias. hidden (M,H), words (V,H) the encoder's word embeddings,
  // which the output shares -> (M,V) in `options.compute`.
  at::Tensor logits(const at::Tensor& hidden, const at::Tensor& words,
                    const ForwardOptions& options = {}) const;

 private:
  Activation activation_;
  double epsilon_;
};

struct MaskedLanguageModel {
  LoadedEncoder base;
  MaskedLanguageHead head;
  bool new_head = false;  // the folder had none

  // An encoder's folder; a head that it lacks is drawn from `seed`.
  static MaskedLanguageModel load(const std::filesystem::path& folder, std::uint64_t seed,
                                  at::Device device);
  // (M,V) at these places of the packed tokens.
  at::Tensor logits(const PackedTokens& batch, std::span<const std::int64_t> places,
                    const ForwardOptions& options = {}) const;
  // Sum over the places of -log softmax(logits)_target, fp32. targets (M) ids.
  at::Tensor loss(const PackedTokens& batch, std::span<const std::int64_t> places,
                  std::span<const std::int64_t> targets, const ForwardOptions& options = {}) const;
  // As transformers' class ...ForMaskedLM of the family loads it; an encoder of
  // sentence-transformers stays one.
  void save(const std::filesystem::path& folder) const;
};

}  // namespace gpuhpc
