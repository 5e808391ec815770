#include "gpuhpc/pipelines/embedding/options.hpp"

#include <algorithm>
#include <charconv>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"

namespace gpuhpc {
namespace {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const EmbeddingLoss& loss : embedding_losses()) names.emplace_back(loss.name);
  return names;
}

}  // namespace

std::vector<std::string> PairFileOptions::column_names() const {
  std::vector<std::string> names = config::split_list(columns);
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty())
      throw usage_error("--embedding.columns {}: a name is empty; write NAME,NAME", columns);
    if (std::find(names.begin(), name, *name) != name)
      throw usage_error("--embedding.columns {}: `{}` is named twice; name each column once",
                        columns, *name);
  }
  return names;
}

std::vector<std::int64_t> PairLossOptions::dimensions() const {
  std::vector<std::int64_t> numbers;
  if (matryoshka.empty()) return numbers;
  for (const std::string& word : config::split_list(matryoshka)) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number < 1)
      throw usage_error(
          "--embedding.matryoshka {}: `{}` is not a number of dimensions; write 256,128,64",
          matryoshka, word);
    numbers.push_back(number);
  }
  return numbers;
}

void declare(config::Section& section, PairFileOptions& options) {
  section
      .option("train", options.train,
              "train-embedding: JSONL, CSV or TSV file of rows to learn from, also .gz")
      .existing_path();
  section
      .option("validation", options.validation,
              "rows whose loss is watched while training; none: --train.validation")
      .existing_path();
  section.option("test", options.test, "rows that search is measured on, before and after")
      .existing_path();
  section.option("columns", options.columns,
                 "the columns of texts: anchor and positive, then negatives, or one for simcse");
  section.option("score", options.score, "the column of numbers, for the losses that learn scores");
}

void declare(config::Section& section, PairLossOptions& options) {
  section
      .option("loss", options.loss,
              "mnrl: the positive among those of the whole batch; mnrl-symmetric: both ways; "
              "simcse: a text and itself with other dropout; triplet; cosine, cosent, angle: "
              "nearness follows the scores; margin-mse: a teacher's difference of scores")
      .one_of(loss_names());
  section.option("scale", options.scale, "factor of cosines in mnrl, simcse, cosent and angle")
      .range(1e-3, 1e6);
  section.option("margin", options.margin, "triplet: how much nearer the positive has to be")
      .range(0, 1e6);
  section.option("distance", options.distance, "triplet: which distance")
      .one_of({"cosine", "euclidean", "manhattan"});
  section.option("matryoshka", options.matryoshka,
                 "numbers of leading dimensions, with commas, that must serve alone as well");
}

// The Sentence-BERT guide: 2e-5 at a batch of 32, rates grow with the batch, length 128.
std::vector<std::pair<std::string, std::string>> embedding_defaults() {
  return {{"train.encoder-lr", "2e-5"}, {"train.max-length", "128"}, {"train.layers", "-1"},
          {"train.lr-rule", "linear"},  {"train.micro-batch", "0"},  {"train.dropout", "auto"}};
}

}  // namespace gpuhpc
