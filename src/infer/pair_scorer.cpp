#include "gpuhpc/infer/pair_scorer.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/infer/runner.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"

namespace gpuhpc {
namespace {

float probability(std::span<const float> logits, std::int64_t label) {
  const float top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - top));
  return static_cast<float>(
      std::exp(static_cast<double>(logits[static_cast<std::size_t>(label)] - top)) / sum);
}

}  // namespace

struct PairScorer::State {
  State(const std::filesystem::path& folder, const InferOptions& options,
        const DeviceChoice& device)
      : classifier(SequenceClassifier::load(folder, torch_device(device))),
        entailment(classifier.entailment_label()),
        tokenizer(load_tokenizer(folder)),
        form(tokenizer->special().pair),
        runner(make_runner(InferPlan(options, device))) {
    check_vocabulary(classifier.model(), tokenizer->vocabulary_size());
  }

  BatchRunner make_runner(const InferPlan& plan) const {
    InferModel model{.hidden_size = classifier.encoder().config().hidden_size,
                     .columns = std::ssize(classifier.labels()),
                     .device = classifier.encoder().device()};
    if (plan.cuda) {
      model.on_device = [this, forward = plan.forward](const PackedTokens& batch) {
        return classifier.logits(batch, forward);
      };
    } else {
      const auto cpu = std::make_shared<CpuClassifier>(classifier, plan.precision, plan.isa);
      model.workspace = [cpu] { return cpu->make_workspace(); };
      model.on_cpu = [cpu](CpuWorkspace& workspace, const PackedIds& packed,
                           MutableMatrixView rows) { cpu->logits(workspace, packed, rows); };
    }
    return {plan, std::move(model)};
  }

  SequenceClassifier classifier;
  std::int64_t entailment;
  std::unique_ptr<Tokenizer> tokenizer;
  PairTemplate form;
  BatchRunner runner;
};

PairScorer::PairScorer(const std::filesystem::path& folder, const InferOptions& options,
                       const DeviceChoice& device)
    : state_(std::make_unique<State>(folder, options, device)) {}
PairScorer::~PairScorer() = default;

const Tokenizer& PairScorer::tokenizer() const { return *state_->tokenizer; }
std::string PairScorer::describe() const { return state_->runner.plan().describe(); }

std::vector<float> PairScorer::entailment(std::span<const TokenIds> premises,
                                          std::span<const TokenIds> hypotheses,
                                          std::span<const TextPair> pairs) const {
  const State& s = *state_;
  const std::int64_t longest = s.classifier.model().embedding.max_tokens;
  const auto premise = [&](const TextPair& pair) -> const TokenIds& {
    return premises[static_cast<std::size_t>(pair.premise)];
  };
  const auto hypothesis = [&](const TextPair& pair) -> const TokenIds& {
    return hypotheses[static_cast<std::size_t>(pair.hypothesis)];
  };
  std::vector<std::int64_t> lengths;
  for (const TextPair& pair : pairs)
    lengths.push_back(std::min(
        longest, std::ssize(premise(pair)) + std::ssize(hypothesis(pair)) + s.form.specials()));
  const auto pack = [&](const ItemBatch& batch) {
    PackedIds packed;
    for (std::int64_t i = batch.first; i < batch.last; ++i) {
      const TextPair& pair = pairs[static_cast<std::size_t>(i)];
      const TokenPair tokens = paired(s.form, premise(pair), hypothesis(pair), longest);
      packed.add_pair(i, tokens.ids, tokens.segments);
    }
    return packed;
  };
  std::vector<float> probabilities(pairs.size());
  s.runner.run(s.runner.cut(lengths), pack,
               [&](const ItemBatch& batch, const PackedIds&, const Matrix& logits) {
                 for (std::int64_t i = 0; i < logits.rows; ++i)
                   probabilities[static_cast<std::size_t>(batch.first + i)] =
                       probability(logits.row(i), s.entailment);
               });
  return probabilities;
}

}  // namespace gpuhpc
