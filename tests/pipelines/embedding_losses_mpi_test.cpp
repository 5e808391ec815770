// Every loss of train-embedding learns the same, however its batches are cut into micro-batches and
// dealt to ranks: the weights after two updates of a tiny BERT are those of the definition. Run on
// 1, 2 and 4 ranks.
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/embedding/task.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t items = 10, batch = 6, updates = 2;
constexpr double rate = .02;

// A loss, and the rows that it learns of.
struct Example {
  std::string loss;
  std::size_t columns;
  std::string matryoshka = {};
  std::string distance = "euclidean";
};

const Example examples[] = {
    {"mnrl", 2},
    {"mnrl", 4},  // two hard negatives
    {"mnrl", 2, "16,8"},
    {"mnrl-symmetric", 2},
    {"simcse", 1},
    {"triplet", 3},
    {"triplet", 3, "", "cosine"},
    {"cosine", 2},
    {"cosent", 2},
    {"cosent", 2, "8"},
    {"angle", 2},
    {"softmax", 2},
    {"margin-mse", 3},
    {"distill", 3},
};

// Ragged texts of words that a column's rows share in part.
std::string column_of(std::size_t column) {
  RandomStream random(5, column);
  std::string lines;
  for (std::int64_t i = 0; i < items; ++i) {
    lines += fmt::format("word{}", i);
    for (std::uint64_t more = random.below(9); more > 0; --more)
      lines += fmt::format(" w{}", random.below(60));
    lines += "\n";
  }
  return lines;
}

std::vector<float> values_of(const Example& example) {
  const EmbeddingLoss& loss = embedding_loss(example.loss);
  RandomStream random(6, 0);
  std::vector<float> values(loss.values(example.columns) * items);
  for (float& value : values)
    value = static_cast<float>(loss.learns == Learns::classes ? static_cast<double>(random.below(3))
                                                              : 2 * random.uniform() - 1);
  return values;
}

// The tokens of all columns, once for all tests of this process.
class ColumnTexts {
 public:
  ColumnTexts() {
    const auto alone = make_single_communicator();
    for (std::size_t c = 0; c < 4; ++c) {
      const auto lines = folder_ / fmt::format("{}.txt", c);
      write_unsynced(lines, column_of(c));
      prepare_shards(scan_corpus(lines, {.format = "lines"}, *alone), WordTokenizer(90),
                     folder_ / std::to_string(c), {}, Texts::keep, *alone, 1);
    }
  }
  LearntRows rows(const Example& example) const {
    LearntRows rows;
    rows.files.resize(2);  // the second: of a validation, none
    for (std::size_t c = 0; c < example.columns; ++c)
      rows.files[0].emplace_back(folder_ / std::to_string(c));
    rows.values = values_of(example);
    rows.options.loss = example.loss, rows.options.matryoshka = example.matryoshka;
    rows.options.distance = example.distance;
    rows.options.scale = 5;
    return rows;
  }

 private:
  ScratchFolder folder_;
};

// With so large an epsilon AdamW is plain gradient descent.
TrainOptions descent(std::int64_t micro_batch) {
  TrainOptions options;
  options.max_steps = updates, options.batch = batch, options.micro_batch = micro_batch;
  options.precision = "fp32", options.rate_rule = "none", options.weight_decay = 0;
  options.epsilon = 1e6, options.beta1 = 0, options.beta2 = 0;
  options.clip = 0, options.warmup = 0, options.decay = "constant";
  return options;
}

struct Learner {
  // `failing` sees what is computed at once before it is.
  Learner(const ColumnTexts& texts, const Example& example,
          std::function<void(std::span<const std::int64_t>)> before = {})
      : failing(std::move(before)), model(load_encoder("tests/nn/fixtures/tiny_bert")) {
    model.encoder.train_top_layers(-1);
    if (embedding_loss(example.loss).learns == Learns::classes)
      head.emplace(model.encoder.config().hidden_size, 3, 1);
    std::vector<LearntRows> sets;
    sets.push_back(texts.rows(example));
    task.emplace(
        std::move(sets), 24, TextTemplate{{2}, {3}},
        [this](const PackedIds& packed, DropoutSeed) {
          if (failing) failing(packed.documents);
          return model.encoder.embed(pack_tokens(packed, at::kCPU), model.model.embedding);
        },
        head ? &*head : nullptr);
  }
  template <class Do>
  void for_each_weight(const Do& act) const {
    for (const auto& parameter : model.encoder.parameters()) act(parameter.value);
    if (head)
      for (const auto& parameter : head->parameters()) act(parameter.value);
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for_each_weight([&](const at::Tensor& weight) {
      const at::Tensor value = weight.detach().contiguous();
      all.insert(all.end(), value.const_data_ptr<float>(),
                 value.const_data_ptr<float>() + value.numel());
    });
    return all;
  }
  std::function<void(std::span<const std::int64_t>)> failing;
  LoadedEncoder model;
  std::optional<PairClassifier> head;
  std::optional<EmbeddingTask> task;
};

// Automatic differentiation over each whole batch, w -= rate x gradient of the mean.
std::vector<float> by_definition(const ColumnTexts& texts, const Example& example) {
  Learner learner(texts, example);
  learner.for_each_weight([](const at::Tensor& weight) { weight.set_requires_grad(true); });
  Sampler sampler(*learner.task, descent(0), descent(0).course(), batch);
  for (std::int64_t step = 0; step < updates; ++step) {
    const std::vector<std::int64_t> drawn = sampler.next();
    const std::any loaded = learner.task->load(drawn, step);
    learner.task->take(loaded);
    const LossSum loss = learner.task->loss(drawn, std::nullopt);
    (loss.sum / loss.count).backward();
    const c10::NoGradGuard no_grad;
    learner.for_each_weight([](const at::Tensor& weight) {
      if (!weight.grad().defined()) return;  // the pooler's, which no vector needs
      weight.sub_(weight.grad(), rate);
      weight.mutable_grad().reset();
    });
  }
  return learner.weights();
}

std::vector<float> trained(const ColumnTexts& texts, const Example& example,
                           std::int64_t micro_batch, Communicator& comm,
                           std::function<void(std::span<const std::int64_t>)> failing = {}) {
  Learner learner(texts, example, std::move(failing));
  const TrainOptions options = descent(micro_batch);
  std::vector<RatedParameters> groups{
      {"encoder", rate * 1e6, trained_parameters(learner.model.encoder)}};
  if (learner.head) groups.push_back({"head", rate * 1e6, trained_parameters(*learner.head)});
  ParameterArena arena(parameter_groups(groups, options), comm.size());
  Trainer(arena, *learner.task, options, {.comm = comm, .room_for_graphs = 0}).run();
  return learner.weights();
}

double largest_difference(const std::vector<float>& found, const std::vector<float>& wanted) {
  double largest = found.size() == wanted.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(found[i]) - wanted[i]));
  return largest;
}

TEST(EmbeddingLosses, OneAnswerForEveryMicroBatchAndAnyRanks) {
  const auto comm = MpiSession::world();
  const ColumnTexts texts;
  for (const Example& example : examples) {
    SCOPED_TRACE(fmt::format("{} of {} columns, dimensions {}", example.loss, example.columns,
                             example.matryoshka));
    const std::vector<float> wanted = by_definition(texts, example);
    EXPECT_GT(largest_difference(wanted, Learner(texts, example).weights()), 1e-3);
    for (const std::int64_t micro_batch : {0, 1, 2, 3})
      EXPECT_LE(largest_difference(trained(texts, example, micro_batch, *comm), wanted), 1e-5)
          << "micro-batch " << micro_batch;
  }
}

// A rank runs out of memory once, before or behind the exchange of vectors; all go on in smaller
// parts.
TEST(EmbeddingLosses, RunningOutOfMemoryChangesNothing) {
  const auto comm = MpiSession::world();
  const ColumnTexts texts;
  for (const Example& example :
       {Example{"mnrl", 4}, {"mnrl", 4, "16,8"}, {"cosent", 2}, {"triplet", 3}})
    for (const bool in_second_pass : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {} pass", example.loss, in_second_pass ? "second" : "first"));
      const bool one_pass = embedding_loss(example.loss).over == EmbeddingLoss::Over::row;
      if (one_pass && !in_second_pass) continue;
      // Of four ranks each has one micro-batch, and keeps its graph: nothing is computed again.
      const bool second_pass = in_second_pass && !one_pass,
                 there = second_pass ? comm->rank() == 0 && comm->size() < 4
                                     : comm->rank() == comm->size() - 1;
      std::int64_t failures = 0;
      bool without_graph = false;
      const auto failing = [&](std::span<const std::int64_t>) {
        without_graph |= !c10::GradMode::is_enabled();
        const bool again = without_graph && c10::GradMode::is_enabled();
        if (!there || failures > 0 || (second_pass && !again)) return;
        ++failures;
        throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
      };
      EXPECT_LE(largest_difference(trained(texts, example, 2, *comm, failing),
                                   by_definition(texts, example)),
                1e-5);
      EXPECT_EQ(failures, there ? 1 : 0);
    }
}

// Pairs of texts that are found among all, and their figures, as sentence-transformers has them
// (data_tools/fixtures/make_embedding.py); by the evaluator, too, with its own numbers of pairs.
TEST(EmbeddingLosses, ParaphrasesAreFoundAsBySentenceTransformersOnAnyRanks) {
  const auto comm = MpiSession::world();
  const auto alone = make_single_communicator();
  for (const Json& given : read_json("tests/eval/fixtures/paraphrases.json")) {
    const auto rows = given.at("vectors").get<std::vector<std::vector<float>>>();
    Matrix units(std::ssize(rows), std::ssize(rows[0]));
    for (std::int64_t i = 0; i < units.rows; ++i) {
      std::ranges::copy(rows[static_cast<std::size_t>(i)], units.row(i).begin());
      normalise(units.row(i));
    }
    PairSet duplicates;
    const ScratchFolder folder;
    std::string first, second;
    const auto add = [&](std::int64_t a, std::int64_t b) {
      first += fmt::format("{} w\n", a), second += fmt::format("{} w\n", b);
    };
    for (const Json& row : given.at("rows")) {
      const auto [a, b] = row.get<std::pair<std::int32_t, std::int32_t>>();
      duplicates.insert(std::minmax(a, b));
      add(a, b);
    }
    for (std::int64_t i = 0; i < units.rows; ++i) add(i, i);  // all texts; none its own duplicate
    const bool transitive = given.at("transitive");
    if (transitive) duplicates = transitive_closure(duplicates);
    const auto expect = [&](const Figures& found) {
      ASSERT_EQ(found.size(), 5U);
      for (const auto& [name, value] : found)
        EXPECT_NEAR(value, given.at("figures").at(name).get<double>(), 1e-6) << name;
    };
    expect(paraphrase_figures(
        nearest_pairs(units.view(), given.at("top_k"), given.at("max_pairs"), *comm), duplicates));
    if (given.at("top_k") != 100) continue;
    std::vector<TokenDataset> columns;
    for (const std::string& lines : {first, second}) {
      const std::filesystem::path path = folder / std::to_string(columns.size());
      write_unsynced(path.string() + ".txt", lines);
      prepare_shards(scan_corpus(path.string() + ".txt", {.format = "lines"}, *alone),
                     WordTokenizer(90), path, {}, Texts::keep, *alone, 1);
      columns.emplace_back(path);
    }
    const RowEvaluator evaluator(columns, all_rows(columns[0]), {},
                                 measure_of(2, Learns::nothing, {}, "paraphrases"), transitive);
    EXPECT_EQ(evaluator.texts_in_all(), units.rows);
    std::vector<Matrix> vectors;
    for (std::size_t c = 0; c < 2; ++c) {
      const std::vector<std::int64_t>& places = evaluator.texts()[c].places;
      Matrix& of_column = vectors.emplace_back(std::ssize(places), units.columns);
      for (std::int64_t i = 0; i < of_column.rows; ++i)
        std::ranges::copy(
            rows[std::stoul(std::string(columns[c].text(places[static_cast<std::size_t>(i)])))],
            of_column.row(i).begin());
    }
    expect(evaluator.figures(vectors, *comm));
  }
}

// A loss that is added to the table has a row here too.
TEST(EmbeddingLosses, AllOfThemAreTried) {
  for (const EmbeddingLoss& loss : embedding_losses())
    EXPECT_TRUE(std::ranges::any_of(examples, [&](const Example& example) {
      return example.loss == loss.name;
    })) << loss.name;
}

}  // namespace
}  // namespace gpuhpc
