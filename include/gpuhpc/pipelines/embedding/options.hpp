#pragma once
// What the job train-embedding adds to the shared options.
#include <cstdint>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/retrieval/negatives.hpp"

namespace gpuhpc {

// [embedding]: the files of pairs, triplets or more, and which of their columns are texts.
struct PairFileOptions {
  static constexpr const char* section = "embedding";
  std::string train, validation, test;
  std::string columns = "anchor,positive", score = "score";
  std::vector<std::string> column_names() const;  // usage_error: empty or twice
};

// [embedding]: what is learnt from a row.
struct PairLossOptions {
  static constexpr const char* section = "embedding";
  // mnrl: the positive among those of the whole batch; mnrl-symmetric: both ways; simcse: one
  // column, twice with other dropout; triplet; cosine, cosent, angle: cosines (angles) follow the
  // scores; margin-mse: the score is a teacher's difference
  std::string loss = "mnrl";
  double scale = 20;  // mnrl, simcse, cosent, angle: of cosines
  double margin = 1;  // triplet
  std::string distance = "euclidean";
  std::string matryoshka;  // numbers of leading dimensions that must serve alone
  std::vector<std::int64_t> dimensions() const;  // usage_error: not numbers above 0
};
void declare(config::Section& section, PairFileOptions& options);
void declare(config::Section& section, PairLossOptions& options);

struct EmbeddingOptions {
  PairFileOptions files;
  PairLossOptions loss;
  NegativeOptions mining;
};

// What train-embedding takes for the shared options that the user does not give.
std::vector<std::pair<std::string, std::string>> embedding_defaults();

}  // namespace gpuhpc
