#include "gpuhpc/pipelines/embedding/options.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/embedding/losses.hpp"

namespace gpuhpc {
namespace {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const EmbeddingLoss& loss : embedding_losses()) names.emplace_back(loss.name);
  return names;
}

std::vector<std::string> distinct_names(const char* option, const std::string& list) {
  std::vector<std::string> names = config::split_list(list);
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty())
      throw usage_error("--embedding.{} {}: a name is empty; write NAME,NAME", option, list);
    if (std::find(names.begin(), name, *name) != name)
      throw usage_error("--embedding.{} {}: `{}` is named twice; name each column once", option,
                        list, *name);
  }
  return names;
}

}  // namespace

std::vector<std::string> PairFileOptions::column_names() const {
  return distinct_names("columns", columns);
}

std::vector<std::string> PairFileOptions::test_column_names() const {
  return test_columns.empty() ? column_names() : distinct_names("test-columns", test_columns);
}

std::vector<std::string> PairFileOptions::prompts_of(const std::vector<std::string>& names) const {
  if (prompts.empty()) return {};
  std::vector<std::string> known = column_names(), of_columns(names.size());
  std::ranges::copy(test_column_names(), std::back_inserter(known));
  const Json given = Json::parse(prompts, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    throw usage_error(
        "--embedding.prompts {}: this is no JSON object; write {{\"COLUMN\": \"query: \"}}",
        prompts);
  for (const auto& [name, prompt] : given.items()) {
    if (std::ranges::find(known, name) == known.end() || !prompt.is_string())
      throw usage_error(
          "--embedding.prompts {}: `{}` is not a column of texts with a string; the "
          "columns are {}",
          prompts, name, columns);
    if (const auto column = std::ranges::find(names, name); column != names.end())
      of_columns[static_cast<std::size_t>(column - names.begin())] = prompt;
  }
  return of_columns;
}

ScoreRange PairFileOptions::range(ScoreRange of_loss) const {
  if (score_range.empty()) return of_loss;
  const std::vector<std::string> ends = config::split_list(score_range);
  ScoreRange given;
  if (ends.size() != 2 || !config::parse_number(ends[0], given.low) ||
      !config::parse_number(ends[1], given.high) || !(given.low < given.high))
    throw usage_error("--embedding.score-range {}: write LOW,HIGH, as in 0,5", score_range);
  if (given.low < of_loss.low || given.high > of_loss.high)
    throw usage_error("--embedding.score-range {}: this loss learns scores from {} to {} alone",
                      score_range, of_loss.low, of_loss.high);
  return given;
}

std::vector<std::int64_t> PairLossOptions::dimensions() const {
  std::vector<std::int64_t> numbers;
  if (matryoshka.empty()) return numbers;
  for (const std::string& word : config::split_list(matryoshka)) {
    std::int64_t number = 0;
    if (!config::parse_number(word, number) || number < 1)
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
  section.option("score", options.score,
                 "the column of scores or classes, for the losses that learn them; distill: one "
                 "column for each "
                 "text after the first, or one with arrays");
  section.option("test-columns", options.test_columns,
                 "the columns of texts of the test file, where they are others");
  section.option("test-score", options.test_score,
                 "the column of the test file that says how near its two texts are, where the loss "
                 "learns no such score: any numbers, or 1 and 0");
  section.option("score-range", options.score_range,
                 "LOW,HIGH: a row whose score is outside is bad; none: what the loss can learn");
  section.option("prompts", options.prompts,
                 "texts put before those of a column: {\"anchor\": \"query: \"}");
  section
      .option("bad-rows", options.bad_rows,
              "rows without one of the columns, with an empty text or a wrong score: fatal; skip: "
              "they are left out, counted, and the first few named")
      .one_of({"fatal", "skip"});
  section.option("train-limit", options.train_limit, "rows of the training file; 0: all")
      .range(0, 1e12);
  section
      .option("validation-limit", options.validation_limit, "rows of the validation file; 0: all")
      .range(0, 1e12);
  section.option("test-limit", options.test_limit, "rows of the test file; 0: all").range(0, 1e12);
}

void declare(config::Section& section, PairLossOptions& options) {
  section
      .option("loss", options.loss,
              "mnrl: the positive among those of the whole batch; mnrl-symmetric: both ways; "
              "simcse: a text and itself with other dropout; triplet; cosine, cosent, angle: "
              "nearness follows the scores; softmax: classes of pairs, by a head that is not kept; "
              "margin-mse: a teacher's difference of scores; distill: a teacher's scores")
      .one_of(loss_names());
  section.option("scale", options.scale, "factor of cosines in mnrl, simcse, cosent and angle")
      .range(1e-3, 1e6);
  section.option("margin", options.margin, "triplet: how much nearer the positive has to be")
      .range(0, 1e6);
  section.option("distance", options.distance, "triplet: which distance")
      .one_of({"cosine", "euclidean", "manhattan"});
  section
      .option("temperature", options.temperature,
              "distill: by which both models' scores are divided before they are compared")
      .range(1e-3, 1e6);
  section.option("metric", options.metric,
                 "what tells the best validation, for --train.restore best and --train.patience: "
                 "loss, or a figure of the evaluation, such as ndcg_at_10, spearman_cosine, "
                 "cosine_accuracy, cosine_ap; softmax: label_accuracy");
  section.option("matryoshka", options.matryoshka,
                 "numbers of leading dimensions, with commas, that must serve alone as well");
}

// The Sentence-BERT guide: 2e-5 at a batch of 32, rates grow with the batch, length 128.
std::vector<std::pair<std::string, std::string>> embedding_defaults() {
  return {{"train.encoder-lr", "2e-5"}, {"train.max-length", "128"}, {"train.layers", "-1"},
          {"train.lr-rule", "linear"},  {"train.micro-batch", "0"},  {"train.dropout", "auto"},
          {"train.head-lr", "2e-5"}};
}

}  // namespace gpuhpc
