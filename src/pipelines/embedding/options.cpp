#include "gpuhpc/pipelines/embedding/options.hpp"

#include <algorithm>
#include <cmath>

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

std::vector<std::string> distinct_names(const std::string& option, const std::string& list) {
  std::vector<std::string> names = config::split_list(list);
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) throw usage_error("--{} {}: a name is empty; write NAME,NAME", option, list);
    if (std::find(names.begin(), name, *name) != name)
      throw usage_error("--{} {}: `{}` is named twice; name each column once", option, list, *name);
  }
  return names;
}

}  // namespace

std::vector<std::string> PairFileOptions::column_names() const {
  return distinct_names(given_in + ".columns", columns);
}

std::vector<std::string> PairFileOptions::test_column_names() const {
  return test_columns.empty() ? column_names()
                              : distinct_names("embedding.test-columns", test_columns);
}

std::vector<std::string> PairFileOptions::prompts_of(const std::vector<std::string>& names) const {
  if (prompts.empty()) return {};
  std::vector<std::string> known = column_names(), of_columns(names.size());
  std::ranges::copy(test_column_names(), std::back_inserter(known));
  const Json given = Json::parse(prompts, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    throw usage_error("--{}.prompts {}: this is no JSON object; write {{\"COLUMN\": \"query: \"}}",
                      given_in, prompts);
  for (const auto& [name, prompt] : given.items()) {
    if (std::ranges::find(known, name) == known.end() || !prompt.is_string())
      throw usage_error(
          "--{}.prompts {}: `{}` is not a column of texts with a string; the columns are {}",
          given_in, prompts, name, columns);
    if (const auto column = std::ranges::find(names, name); column != names.end())
      of_columns[static_cast<std::size_t>(column - names.begin())] = prompt;
  }
  return of_columns;
}

EmbeddingOptions with_prompts(EmbeddingOptions options, const ModelFolder& encoder,
                              const std::string& given) {
  const auto write_out = [&](PairFileOptions& files) {
    std::vector<std::string> columns = files.column_names();
    std::ranges::copy(files.test_column_names(), std::back_inserter(columns));
    files.prompts_of(columns);  // that they can be read
    const Json said = files.prompts.empty() ? Json::object() : Json::parse(files.prompts);
    Json all = Json::object();
    for (const std::string& column : columns) {
      const std::string text = encoder.prompts.text(said.value(column, given));
      encoder.check_prompt(text);
      if (!text.empty()) all[column] = text;
    }
    files.prompts = all.empty() ? "" : all.dump();
  };
  write_out(options.files);
  for (auto& [name, set] : options.datasets) write_out(set.files);
  return options;
}

Prompts learnt_prompts(const Prompts& before, const std::vector<PairDataset>& datasets) {
  Prompts learnt;
  std::vector<std::string> texts;
  for (const PairDataset& set : datasets) {
    const std::vector<std::string> columns = set.files.column_names();
    std::vector<std::string> prompts = set.files.prompts_of(columns);
    prompts.resize(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string* const known = learnt.find(columns[i]);
      // A column that another data set has with another prompt.
      const bool other = known != nullptr && *known != prompts[i];
      learnt.set(other ? set.name + "." + columns[i] : columns[i], prompts[i]);
      texts.push_back(prompts[i]);
    }
  }
  const bool alike = std::ranges::adjacent_find(texts, std::ranges::not_equal_to{}) == texts.end(),
             none =
                 std::ranges::all_of(before.texts, [](const auto&p) { return p.second.empty(); });
  if (alike && texts.front().empty() && none) return before;
  const std::string first = learnt.texts.front().first;
  for (std::size_t i = 0; i < 2 && datasets.front().files.column_names().size() > 1; ++i)
    if (const char* const name = i == 0 ? "query" : "document"; learnt.find(name) == nullptr)
      learnt.set(name, texts[i]);
  const std::string* const kept = learnt.find(before.default_name);
  if (kept != nullptr && !kept->empty() && *kept == before.text())
    learnt.default_name = before.default_name;
  else if (alike && !texts.front().empty())
    learnt.default_name = first;
  return learnt;
}

ScoreRange PairFileOptions::range(ScoreRange of_loss) const {
  if (score_range.empty()) return of_loss;
  const std::vector<std::string> ends = config::split_list(score_range);
  ScoreRange given;
  if (ends.size() != 2 || !config::parse_number(ends[0], given.low) ||
      !config::parse_number(ends[1], given.high) || !(given.low < given.high))
    throw usage_error("--{}.score-range {}: write LOW,HIGH, as in 0,5", given_in, score_range);
  if (given.low < of_loss.low || given.high > of_loss.high)
    throw usage_error("--{}.score-range {}: this loss learns scores from {} to {} alone", given_in,
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

namespace {

// What a data set says of its own.
void declare_rows(config::Section& section, PairFileOptions& options) {
  section.option("train", options.train, "JSONL, CSV or TSV file of rows to learn from, also .gz")
      .existing_path();
  section
      .option("validation", options.validation,
              "rows whose loss is watched while training; none: --train.validation")
      .existing_path();
  section.option("columns", options.columns,
                 "the columns of texts: anchor and positive, then negatives, or one for simcse");
  section.option("score", options.score,
                 "the column of scores or classes, for the losses that learn them; distill: one "
                 "column for each text after the first, or one with arrays");
  section.option("score-range", options.score_range,
                 "LOW,HIGH: a row whose score is outside is bad; none: what the loss can learn");
  section.option("prompts", options.prompts,
                 "texts put before those of a column: {\"anchor\": \"query: \"}, or names of the "
                 "encoder's prompts; a column that is not named: --model.prompt");
  section.option("train-limit", options.train_limit, "rows of the training file; 0: all")
      .range(0, 1e12);
  section
      .option("validation-limit", options.validation_limit, "rows of the validation file; 0: all")
      .range(0, 1e12);
}

void declare_loss(config::Section& section, PairLossOptions& options) {
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
}

// That a data set takes from [embedding] where it does not give them.
constexpr const char* shared_keys[] = {"columns", "score",  "score-range", "loss",
                                       "scale",   "margin", "distance",    "temperature"};

}  // namespace

void declare(config::Section& section, PairFileOptions& options) {
  declare_rows(section, options);
  section.option("test", options.test, "rows that search is measured on, before and after")
      .existing_path();
  section.option("test-columns", options.test_columns,
                 "the columns of texts of the test file, where they are others");
  section.option("test-score", options.test_score,
                 "the column of the test file that says how near its two texts are, where the loss "
                 "learns no such score: any numbers, or 1 and 0");
  section
      .option("bad-rows", options.bad_rows,
              "rows without one of the columns, with an empty text or a wrong score: fatal; skip: "
              "they are left out, counted, and the first few named")
      .one_of({"fatal", "skip"});
  section.option("test-limit", options.test_limit, "rows of the test file; 0: all").range(0, 1e12);
}

void declare(config::Section& section, PairLossOptions& options) {
  declare_loss(section, options);
  section.option("metric", options.metric,
                 "what tells the best validation, for --train.restore best and --train.patience: "
                 "loss, or a figure of the evaluation, such as ndcg_at_10, spearman_cosine, "
                 "cosine_accuracy, cosine_ap, average_precision; softmax: label_accuracy");
  section
      .option("evaluator", options.evaluator,
              "how rows are measured: auto: as they are, by search, triplets, scores or labels of "
              "pairs; paraphrases: the first two texts of a row (with labels: where it is 1) are "
              "duplicates, to be found among all texts")
      .one_of({"auto", "paraphrases"});
  section.option("transitive", options.transitive,
                 "paraphrases: duplicates of one text are duplicates of each other");
  section.option("matryoshka", options.matryoshka,
                 "numbers of leading dimensions, with commas, that must serve alone as well");
}

void declare(config::Section& section, MixingOption& option) {
  section
      .option(
          "mixing", option.word,
          "the batches of several [dataset.NAME]: proportional: spread over the epoch, which "
          "goes through each of them `weight` times; round-robin: in rounds of `weight` batches "
          "each, until one has no new ones")
      .one_of({"proportional", "round-robin"});
}

Mixing MixingOption::kind() const {
  return word == "round-robin" ? Mixing::round_robin : Mixing::proportional;
}

void declare(config::Section& section, DatasetOptions& options) {
  options.files.given_in = section.name();
  section
      .option("weight", options.weight,
              "how often an epoch goes through the rows; round-robin: batches of a round")
      .range(1e-3, 1e6);
  declare_rows(section, options.files);
  declare_loss(section, options.loss);
}

std::vector<PairDataset> pair_datasets(const EmbeddingOptions& o) {
  const PairFileOptions& all = o.files;
  if (o.datasets.empty()) {
    if (all.train.empty())
      throw usage_error("--embedding.train is missing; name the file of rows to learn from");
    return {{"", 1, all, o.loss}};
  }
  for (const auto& [key, given] : {std::pair{"train", !all.train.empty()},
                                   {"validation", !all.validation.empty()},
                                   {"train-limit", all.train_limit > 0},
                                   {"validation-limit", all.validation_limit > 0}})
    if (given)
      throw usage_error(
          "--embedding.{} beside [dataset.{}]: with several data sets each has its own; write it "
          "into their sections",
          key, o.datasets.front().name);
  if (o.loss.metric != "loss")
    throw usage_error(
        "--embedding.metric {}: several data sets have no figure in common; leave it out: the best "
        "validation is the one with the least mean of their losses",
        o.loss.metric);
  std::vector<PairDataset> datasets;
  std::string with_head;
  for (const auto& [name, set] : o.datasets) {
    PairDataset& one = datasets.emplace_back(PairDataset{name, set.weight, set.files, set.loss});
    one.files.bad_rows = all.bad_rows;
    one.loss.matryoshka = o.loss.matryoshka;
    if (set.files.train.empty())
      throw usage_error("--dataset.{}.train is missing; name the file of its rows", name);
    if (o.mixing.kind() == Mixing::round_robin && set.weight != std::floor(set.weight))
      throw usage_error(
          "--dataset.{}.weight {} with --embedding.mixing round-robin: a round has whole batches; "
          "give a whole number",
          name, set.weight);
    if (embedding_loss(set.loss.loss).learns != Learns::classes) continue;
    if (!with_head.empty())
      throw usage_error(
          "--dataset.{}.loss and --dataset.{}.loss {}: one data set alone can learn classes, "
          "there is one head; train one after the other",
          with_head, name, set.loss.loss);
    with_head = name;
  }
  return datasets;
}

void plan_rows(const std::vector<PairDataset>& datasets, PlannedWork& work) {
  for (const PairDataset& set : datasets) {
    const EmbeddingLoss& loss = embedding_loss(set.loss.loss);
    const std::int64_t columns = std::ssize(set.files.column_names());
    work.columns = std::max(work.columns, set.loss.loss == "simcse" ? 2 : columns);
    work.over_batch |= loss.over != EmbeddingLoss::Over::row;
  }
}

// The Sentence-BERT guide: 2e-5 at a batch of 32, rates grow with the batch, length 128.
std::vector<std::pair<std::string, std::string>> embedding_defaults(const EmbeddingOptions& o) {
  std::vector<std::pair<std::string, std::string>> defaults{
      {"train.encoder-lr", "2e-5"}, {"train.max-length", "128"}, {"train.layers", "-1"},
      {"train.lr-rule", "linear"},  {"train.micro-batch", "0"},  {"train.dropout", "auto"},
      {"train.head-lr", "2e-5"}};
  std::vector<std::string> lines = config::settings_of(o.files);
  for (std::string& line : config::settings_of(o.loss)) lines.push_back(std::move(line));
  for (const auto& [name, set] : o.datasets)
    for (const std::string key : shared_keys)
      for (const std::string& line : lines)
        if (const std::string start = "embedding." + key + " = "; line.starts_with(start))
          defaults.emplace_back(fmt::format("dataset.{}.{}", name, key), line.substr(start.size()));
  return defaults;
}

}  // namespace gpuhpc
