#include "gpuhpc/infer/pair_scorer.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/infer/runner.hpp"
#include "gpuhpc/io/json.hpp"
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

// Whether the one logit of a ranking model is put through a sigmoid.
bool has_sigmoid(const std::filesystem::path& folder, const SequenceClassifier& classifier) {
  const std::filesystem::path file = folder / "config.json";
  if (classifier.labels().size() != 1)
    throw input_error("{}: {} labels, where a cross-encoder that ranks has one", file.string(),
                      classifier.labels().size());
  const Json config = read_json(file);
  std::filesystem::path said = file;
  std::string name;
  const auto take = [&](const Json& object, const char* key) {  // null says nothing
    const bool told = object.is_object() && object.contains(key) && object[key].is_string();
    if (told) name = object[key].get<std::string>();
    return told;
  };
  take(config, "sbert_ce_default_activation_function");
  if (config.contains("sentence_transformers"))
    take(config.at("sentence_transformers"), "activation_fn");
  // Newer versions say it here alone.
  const std::filesystem::path own = folder / "config_sentence_transformers.json";
  if (std::filesystem::exists(own) && take(read_json(own), "activation_fn")) said = own;
  if (name.empty() || name.ends_with(".Sigmoid")) return true;
  if (name.ends_with(".Identity")) return false;
  throw input_error("{}: the activation `{}` is not known; Sigmoid and Identity are", said.string(),
                    name);
}

// As tokenizers cut a pair, "longest first": to how many tokens of each of both together `room`.
std::pair<std::size_t, std::size_t> cut_longest(std::size_t first, std::size_t second,
                                                std::size_t room) {
  if (first + second <= room) return {first, second};
  std::size_t shorter = std::min(first, second), longer = shorter;
  if (shorter <= room) longer = std::max(shorter, room - shorter);
  if (shorter + longer > room) shorter = room / 2, longer = shorter + room % 2;
  return first <= second ? std::pair{shorter, longer} : std::pair{longer, shorter};
}

}  // namespace

struct PairScorer::State {
  State(const std::filesystem::path& folder, PairScore kind, const InferOptions& options,
        const DeviceChoice& device)
      : classifier(SequenceClassifier::load(folder, torch_device(device))),
        score(kind),
        entailment(kind == PairScore::entailment ? classifier.entailment_label() : 0),
        sigmoid(kind == PairScore::relevance && has_sigmoid(folder, classifier)),
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

  float score_of(std::span<const float> logits) const {
    if (score == PairScore::entailment) return probability(logits, entailment);
    return sigmoid ? 1 / (1 + std::exp(-logits[0])) : logits[0];
  }
  TokenPair pair(std::span<const std::int32_t> first, std::span<const std::int32_t> second,
                 std::int64_t longest) const {
    if (score == PairScore::relevance) {
      const auto room = static_cast<std::size_t>(longest - form.specials());
      const auto [a, b] = cut_longest(first.size(), second.size(), room);
      first = first.first(a), second = second.first(b);
    }
    return paired(form, first, second, longest);
  }

  SequenceClassifier classifier;
  PairScore score;
  std::int64_t entailment;
  bool sigmoid;
  std::unique_ptr<Tokenizer> tokenizer;
  PairTemplate form;
  BatchRunner runner;
};

PairScorer::PairScorer(const std::filesystem::path& folder, PairScore score,
                       const InferOptions& options, const DeviceChoice& device)
    : state_(std::make_unique<State>(folder, score, options, device)) {}
PairScorer::~PairScorer() = default;

const Tokenizer& PairScorer::tokenizer() const { return *state_->tokenizer; }
std::string PairScorer::describe() const { return state_->runner.plan().describe(); }

std::vector<float> PairScorer::scores(std::span<const TokenIds> premises,
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
      const TokenPair tokens = s.pair(premise(pair), hypothesis(pair), longest);
      packed.add_pair(i, tokens.ids, tokens.segments);
    }
    return packed;
  };
  std::vector<float> scores(pairs.size());
  s.runner.run(s.runner.cut(lengths), pack,
               [&](const ItemBatch& batch, const PackedIds&, const Matrix& logits) {
                 for (std::int64_t i = 0; i < logits.rows; ++i)
                   scores[static_cast<std::size_t>(batch.first + i)] = s.score_of(logits.row(i));
               });
  return scores;
}

}  // namespace gpuhpc
