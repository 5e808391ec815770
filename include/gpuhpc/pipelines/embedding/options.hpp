#pragma once
// What the job train-embedding adds to the shared options.
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/plan/memory.hpp"
#include "gpuhpc/retrieval/negatives.hpp"
#include "gpuhpc/train/options.hpp"

namespace gpuhpc {

struct ScoreRange {
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();
};

// [embedding]: the files of pairs, triplets or more, and which of their columns are texts.
struct PairFileOptions {
  static constexpr const char* section = "embedding";
  std::string given_in = section;  // the section that the user wrote them in
  std::string train, validation, test;
  std::string columns = "anchor,positive", score = "score";
  std::string score_range;  // LOW,HIGH of the scores; none: what the loss can learn
  std::string prompts;      // {"COLUMN": "text put before it"}
  std::string bad_rows = "fatal";
  // Of the test file, where they are others: its texts, and the scores of their nearness.
  std::string test_columns, test_score;
  std::int64_t train_limit = 0, validation_limit = 0, test_limit = 0;  // first rows; 0: all
  std::vector<std::string> column_names() const;  // usage_error: empty or twice
  std::vector<std::string> test_column_names() const;
  // Of each of these columns; none: there are no prompts. usage_error: for an unknown column.
  std::vector<std::string> prompts_of(const std::vector<std::string>& names) const;
  ScoreRange range(ScoreRange of_loss) const;
};

// [embedding]: what is learnt from a row.
struct PairLossOptions {
  static constexpr const char* section = "embedding";
  // mnrl: the positive among those of the whole batch; mnrl-symmetric: both ways; simcse: one
  // column, twice with other dropout; triplet; cosine, cosent, angle: cosines (angles) follow the
  // scores; softmax: the class follows from both vectors; margin-mse: the score is a teacher's
  // difference; distill: the scores are a teacher's, of each text after the first
  std::string loss = "mnrl";
  double scale = 20;       // mnrl, simcse, cosent, angle: of cosines
  double margin = 1;       // triplet
  double temperature = 1;  // distill
  std::string distance = "euclidean";
  std::string matryoshka;  // numbers of leading dimensions that must serve alone
  // What tells the best validation: the loss, or a figure of the evaluation at full width.
  std::string metric = "loss";
  // paraphrases: the texts of a row are duplicates in one set of all texts; auto: as the rows are
  std::string evaluator = "auto";
  bool transitive = false;  // paraphrases: duplicates of duplicates are duplicates
  std::vector<std::int64_t> dimensions() const;  // usage_error: not numbers above 0
};
void declare(config::Section& section, PairFileOptions& options);
void declare(config::Section& section, PairLossOptions& options);

// [embedding]: how the batches of several data sets follow each other.
struct MixingOption {
  static constexpr const char* section = "embedding";
  std::string word = "proportional";
  Mixing kind() const;
};
void declare(config::Section& section, MixingOption& option);

// [dataset.NAME]: one of several data sets.
struct DatasetOptions {
  static constexpr const char* section = "dataset";
  double weight = 1;
  PairFileOptions files;
  PairLossOptions loss;
};
void declare(config::Section& section, DatasetOptions& options);

struct EmbeddingOptions {
  PairFileOptions files;
  PairLossOptions loss;
  MixingOption mixing;
  std::deque<config::Named<DatasetOptions>> datasets;
  NegativeOptions mining;
};

// The same with the prompt of every column written out: what --embedding.prompts says of it, a text
// or the name of a prompt of the encoder's folder, else what `given` (--model.prompt) means there.
EmbeddingOptions with_prompts(EmbeddingOptions options, const ModelFolder& encoder,
                              const std::string& given);

// What rows are learnt from, with a loss of their own.
struct PairDataset {
  std::string name;  // empty: there is one alone, that of [embedding]
  double weight = 1;
  PairFileOptions files;
  PairLossOptions loss;
};
// The prompts that a model has learnt with, for its folder: by column, and as `query` and
// `document` those of the first two columns; the default one where all are alike. `before`: those
// that the encoder came with, which stay where nobody uses any.
Prompts learnt_prompts(const Prompts& before, const std::vector<PairDataset>& datasets);
// Throws for options that contradict each other.
std::vector<PairDataset> pair_datasets(const EmbeddingOptions& options);

// What the rows and their losses are to a plan.
void plan_rows(const std::vector<PairDataset>& datasets, PlannedWork& work);

// What train-embedding takes for the options that the user does not give: those of [embedding] in
// each [dataset.NAME] too.
std::vector<std::pair<std::string, std::string>> embedding_defaults(
    const EmbeddingOptions& options);

}  // namespace gpuhpc
