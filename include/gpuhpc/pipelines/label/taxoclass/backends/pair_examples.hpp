#pragma once
// What the cross-encoder of the backend `pair` learns from: pairs made of corpus and taxonomy,
// without labels.
//   title and body     the rest of a document entails its own first sentence, and not that of
//   another document class texts        what stands for a class entails the class, and not one that
//   is no relative of it pseudo-labels      a document entails a class as strongly as its posterior
//   says, where the posterior before and after smoothing agree
#include <cstdint>
#include <string>
#include <vector>

#include "gpuhpc/infer/pair_scorer.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

struct PairExample {
  TextPair pair;
  float target = 0;  // probability of entailment
};

struct PairExamples {
  std::vector<TokenIds> premises, hypotheses;
  std::vector<PairExample> examples;
};

struct PairSources {
  EncodingFiles encoding;
  PosteriorFiles posterior;
  StatementOptions statements;
  PairModelOptions options;
  ExpectedLeavesOption expected_leaves;
  SeedOption seed;
};

// About taxoclass.pair-examples of them, from documents spread evenly over the corpus; the same on
// any number of ranks. Collective.
PairExamples make_pair_examples(const StageContext& context, const PairSources& sources,
                                const Taxonomy& taxonomy, const Tokenizer& tokenizer);

// Each example is an item. The examples must outlive the task.
class PairTask final : public PackedTask {
 public:
  PairTask(const PairExamples& examples, PairTemplate form, std::int64_t longest, Loss loss,
           Targets targets)
      : PackedTask(std::move(loss), std::move(targets)),
        examples_(examples),
        form_(std::move(form)),
        longest_(longest) {}
  std::int64_t size() const override { return std::ssize(examples_.examples); }
  std::int64_t cost(std::int64_t item) const override;
  PackedIds pack(std::span<const std::int64_t> items) const override;

 private:
  const TextPair& pair(std::int64_t item) const {
    return examples_.examples[static_cast<std::size_t>(item)].pair;
  }
  const TokenIds& premise(const TextPair& pair) const {
    return examples_.premises[static_cast<std::size_t>(pair.premise)];
  }
  const TokenIds& hypothesis(const TextPair& pair) const {
    return examples_.hypotheses[static_cast<std::size_t>(pair.hypothesis)];
  }
  const PairExamples& examples_;
  PairTemplate form_;
  std::int64_t longest_;  // tokens of a pair, specials included
};

std::string as_premise(std::string text);  // lower case (ASCII), as the published code does
std::string statement(const std::string& form,
                      const std::string& words);  // the words in the place of {}
std::vector<std::string> class_statements(const Taxonomy& taxonomy, const std::string& form);

}  // namespace gpuhpc
