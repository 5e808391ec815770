#pragma once
// Sequence classifiers (cross-encoders): a text or a pair of texts in, one logit per label out;
// natural-language inference is one of them. Folders of transformers' Bert-, Roberta-, XLMRoberta-,
// Deberta- and DebertaV2ForSequenceClassification. Legend: B documents, H hidden size, C labels.
#include <gpuhpc/base/matrix.hpp>
#include <gpuhpc/nn/cpu_encoder.hpp>
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/heads.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gpuhpc {

// logits = output(f(dense(first token))): f is tanh (BERT, RoBERTa) or gelu (DeBERTa).
enum class HeadActivation { tanh, gelu };

struct ClassifierConfig {
  std::vector<std::string>
      labels;  // in the order of the logits; "LABEL_0" .. where the folder names none
  HeadActivation activation = HeadActivation::tanh;
  bool drops_input = false;  // RoBERTa: dropout before the dense layer too
};
// The head of a model of that family (config.json's "model_type") that is to be made anew.
ClassifierConfig new_classifier_config(const EncoderConfig& encoder,
                                       std::vector<std::string> labels);
// The labels and head of a config.json. Throws input_error naming the file and key.
ClassifierConfig read_classifier_config(const std::filesystem::path& config_file);

class ClassificationHead : public HeadParameters {
 public:
  // Zero weights under the names that the encoder's family gives them, dense layer first.
  ClassificationHead(const ClassifierConfig& config, const EncoderConfig& encoder,
                     at::Device device);
  // To be trained: weights drawn from N(0, .02) as transformers draws them, biases 0.
  ClassificationHead(const ClassifierConfig& config, const EncoderConfig& encoder,
                     std::uint64_t seed, at::Device device);
  at::Tensor logits(const at::Tensor& first_tokens,
                    const ForwardOptions& options = {}) const;  // (B,H) -> (B,C), fp32

 private:
  HeadActivation activation_;
  bool drops_input_;
};

class SequenceClassifier {
 public:
  // Weights that do not fit, are missing or unknown, and unsupported settings are an input_error
  // naming file and tensor or key.
  static SequenceClassifier load(const std::filesystem::path& folder, at::Device device = at::kCPU);

  // (B,C) fp32, differentiable; `options` with their dropouts act on the head too. The batch holds
  // special tokens and, for a BERT pair, segments.
  at::Tensor logits(const PackedTokens& batch, const ForwardOptions& options = {}) const;

  const std::vector<std::string>& labels() const { return config_.labels; }
  // The place of the label "entailment", in any case. A model without one is an input_error.
  std::int64_t entailment_label() const;
  std::int64_t parameter_count() const;

  const ModelFolder& model() const { return model_; }  // length limit: model().embedding.max_tokens
  const ClassifierConfig& config() const { return config_; }
  Encoder& encoder() { return encoder_; }
  const Encoder& encoder() const { return encoder_; }
  ClassificationHead& head() { return head_; }
  const ClassificationHead& head() const { return head_; }

 private:
  SequenceClassifier(ModelFolder model, ClassifierConfig config, at::Device device);

  ModelFolder model_;
  ClassifierConfig config_;
  Encoder encoder_;
  ClassificationHead head_;
};

// The same for inference on processors: CpuEncoder's speed and promises. A pair's logits do not
// depend on its neighbours nor on threads.
class CpuClassifier {
 public:
  // Copies the weights, which must be on the CPU.
  CpuClassifier(const SequenceClassifier& classifier, CpuPrecision precision,
                kernels::Isa isa = kernels::best_isa());
  ~CpuClassifier();
  CpuClassifier(CpuClassifier&&) noexcept;

  std::unique_ptr<CpuWorkspace> make_workspace() const { return encoder_.make_workspace(); }
  // Logits to `output` (B,C). Many threads may call at once, each with a workspace of its own.
  void logits(CpuWorkspace& workspace, const PackedIds& documents, MutableMatrixView output) const;
  const CpuEncoder& encoder() const { return encoder_; }
  std::int64_t labels() const;

 private:
  struct Head;
  CpuEncoder encoder_;
  std::unique_ptr<Head> head_;
};

}  // namespace gpuhpc
