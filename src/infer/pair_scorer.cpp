#include "gpuhpc/infer/pair_scorer.hpp"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"

namespace gpuhpc {
namespace {

struct PackedPairs {
  std::vector<std::int32_t> ids, segments, offsets{0};
};

PackedPairs pack(const PairTemplate& form, std::span<const TokenIds> premises,
                 std::span<const TokenIds> hypotheses, std::span<const TextPair> pairs,
                 std::int64_t longest) {
  PackedPairs packed;
  for (const TextPair& pair : pairs) {
    const TokenPair tokens = paired(form, premises[static_cast<std::size_t>(pair.premise)],
                                    hypotheses[static_cast<std::size_t>(pair.hypothesis)], longest);
    packed.ids.insert(packed.ids.end(), tokens.ids.begin(), tokens.ids.end());
    packed.segments.insert(packed.segments.end(), tokens.segments.begin(), tokens.segments.end());
    packed.offsets.push_back(static_cast<std::int32_t>(packed.ids.size()));
  }
  return packed;
}

}  // namespace

struct PairScorer::State {
  State(const std::filesystem::path& folder, at::Device device)
      : classifier(SequenceClassifier::load(folder, device)),
        entailment(classifier.entailment_label()) {}

  void logits(CpuWorkspace* workspace, const PackedPairs& packed, MutableMatrixView output) const {
    if (cpu) return cpu->logits(*workspace, {packed.ids, packed.offsets, packed.segments}, output);
    const c10::NoGradGuard no_grad;
    const at::Tensor rows = classifier
                                .logits(pack_tokens(packed.ids, packed.offsets,
                                                    classifier.encoder().device(), packed.segments),
                                        forward)
                                .to(at::kCPU, at::kFloat)
                                .contiguous();
    std::copy_n(rows.const_data_ptr<float>(), rows.numel(), output.data);
  }

  SequenceClassifier classifier;
  std::int64_t entailment;
  std::unique_ptr<Tokenizer> tokenizer;
  PairTemplate form;
  std::optional<CpuClassifier> cpu;
  std::int64_t longest = 0, budget = 0;
  int threads = 1;
  ForwardOptions forward;  // CUDA
  std::string numbers;
};

PairScorer::PairScorer(const std::filesystem::path& folder, const InferOptions& options,
                       const DeviceChoice& device)
    : state_(std::make_unique<State>(folder, torch_device(device))) {
  State& s = *state_;
  s.tokenizer = load_tokenizer(folder);
  check_vocabulary(s.classifier.model(), s.tokenizer->vocabulary_size());
  s.form = s.tokenizer->special().pair;
  s.longest = s.classifier.model().embedding.max_tokens;
  s.budget = options.token_budget > 0 ? options.token_budget : device.cuda ? 32768 : 2048;
  s.threads = device.cuda ? 1 : std::max(device.threads, 1);
  const CpuPrecision precision = options.precision_kind(device.cuda);
  s.forward.compute = precision == CpuPrecision::bf16 ? at::kBFloat16 : at::kFloat;
  s.forward.tf32 = precision == CpuPrecision::tf32;
  if (!device.cuda) s.cpu.emplace(s.classifier, precision, options.isa());
  s.numbers = fmt::format("{} on {}, {} thread{}", to_string(precision),
                          device.cuda ? "cuda" : to_string(options.isa()), s.threads,
                          s.threads == 1 ? "" : "s");
}

PairScorer::~PairScorer() = default;

const Tokenizer& PairScorer::tokenizer() const { return *state_->tokenizer; }
std::string PairScorer::describe() const { return state_->numbers; }

std::vector<float> PairScorer::entailment(std::span<const TokenIds> premises,
                                          std::span<const TokenIds> hypotheses,
                                          std::span<const TextPair> pairs) const {
  const State& s = *state_;
  std::vector<std::int64_t> lengths;
  for (const TextPair& pair : pairs)
    lengths.push_back(
        std::min(s.longest, std::ssize(premises[static_cast<std::size_t>(pair.premise)]) +
                                std::ssize(hypotheses[static_cast<std::size_t>(pair.hypothesis)]) +
                                s.form.specials()));
  const std::vector<EncodeBatch> batches =
      cut_batches(lengths, s.budget, s.classifier.encoder().config().hidden_size);
  const auto labels = std::ssize(s.classifier.labels());
  std::vector<float> probabilities(pairs.size());
  std::vector<std::unique_ptr<CpuWorkspace>> workspaces(static_cast<std::size_t>(s.threads));
  parallel_for(0, std::ssize(batches), s.threads, [&](std::int64_t b, int thread) {
    auto& workspace = workspaces[static_cast<std::size_t>(thread)];
    if (!workspace && s.cpu) workspace = s.cpu->make_workspace();
    const EncodeBatch& batch = batches[static_cast<std::size_t>(b)];
    const auto own = pairs.subspan(static_cast<std::size_t>(batch.first),
                                   static_cast<std::size_t>(batch.last - batch.first));
    Matrix logits(std::ssize(own), labels);
    s.logits(workspace.get(), pack(s.form, premises, hypotheses, own, s.longest), logits.view());
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto row = logits.row(i);
      const float top = *std::ranges::max_element(row);
      double sum = 0;
      for (const float logit : row) sum += std::exp(static_cast<double>(logit - top));
      probabilities[static_cast<std::size_t>(batch.first + i)] = static_cast<float>(
          std::exp(static_cast<double>(row[static_cast<std::size_t>(s.entailment)] - top)) / sum);
    }
  });
  return probabilities;
}

}  // namespace gpuhpc
