// Several data sets, each with its own loss: a batch of one of them gives what it gives alone.
#include "gpuhpc/pipelines/embedding/task.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "../data/word_tokenizer.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {
namespace {

using Items = std::vector<std::int64_t>;

class MixedTask : public ::testing::Test {
 protected:
  MixedTask() {
    prepare("anchors", "a b\nc\nd e f\ng h\ni\n");
    prepare("positives", "b a\nc c d\ne\ng\ni j k\n");
    prepare("left", "m n\no\np q r\n");
    prepare("right", "n\no p\nq\n");
    prepare("later", "s t\nu\n");
  }
  void prepare(const std::string& name, const std::string& lines) {
    write_unsynced(folder / (name + ".txt"), lines);
    const auto comm = make_single_communicator();
    prepare_shards(scan_corpus(folder / (name + ".txt"), {.format = "lines"}, *comm),
                   WordTokenizer(), folder / name, {}, Texts::keep, *comm, 1);
  }
  std::vector<TokenDataset> columns(const std::vector<std::string>& names) const {
    std::vector<TokenDataset> found;
    for (const std::string& name : names) found.emplace_back(folder / name);
    return found;
  }
  LearntRows pairs() const {
    LearntRows rows;
    rows.files.push_back(columns({"anchors", "positives"}));
    rows.files.push_back(columns({"later", "later"}));
    rows.options.scale = 7;
    return rows;
  }
  LearntRows scored(const std::string& loss) const {
    LearntRows rows;
    rows.files.push_back(columns({"left", "right"}));
    rows.files.push_back({});
    rows.values = {.3F, .9F, .1F};
    rows.options.loss = loss, rows.options.scale = 11;
    return rows;
  }
  // A text's vector is the mean of its tokens' rows of a table.
  template <class... Rows>
  EmbeddingTask task(Rows... rows) const {
    std::vector<LearntRows> sets;
    (sets.push_back(std::move(rows)), ...);
    const auto embed = [this](const PackedIds& packed, DropoutSeed) {
      const PackedTokens batch = pack_tokens(packed, at::kCPU);
      std::vector<at::Tensor> vectors;
      for (std::int64_t i = 0; i < batch.documents(); ++i)
        vectors.push_back(table
                              .index_select(0, batch.token_ids.slice(
                                                   0, batch.offsets[static_cast<std::size_t>(i)],
                                                   batch.offsets[static_cast<std::size_t>(i) + 1]))
                              .mean(0));
      return at::stack(vectors);
    };
    return {std::move(sets), 12, {{7}, {8}}, embed, nullptr};
  }
  struct Learnt {
    double loss, count;
    at::Tensor gradient;
  };
  Learnt learn(EmbeddingTask task, const Items& items) {
    table.mutable_grad() = at::Tensor();
    const std::any loaded = task.load(items, 0);
    task.take(loaded);
    const LossSum loss = task.loss(items, std::nullopt);
    loss.sum.backward();
    return {loss.sum.item<double>(), loss.count, table.grad().clone()};
  }
  void expect_same(const Learnt& mixed, const Learnt& alone) {
    EXPECT_EQ(mixed.loss, alone.loss);
    EXPECT_EQ(mixed.count, alone.count);
    EXPECT_TRUE(mixed.gradient.equal(alone.gradient));
    EXPECT_GT(mixed.gradient.abs().sum().item<double>(), 0);
  }
  ScratchFolder folder;
  at::Tensor table =
      at::sin(at::arange(3000 * 5, at::kFloat)).reshape({3000, 5}).set_requires_grad(true);
};

TEST_F(MixedTask, ABatchOfEachSetLearnsWhatItLearnsAlone) {
  for (const std::string loss : {"cosent", "cosine"}) {
    const auto both = [&] { return task(pairs(), scored(loss)); };
    expect_same(learn(both(), {4, 0, 3}), learn(task(pairs()), {4, 0, 3}));
    expect_same(learn(both(), {9, 7, 8}), learn(task(scored(loss)), {2, 0, 1}));
    const auto other_order = [&] { return task(scored(loss), pairs()); };
    expect_same(learn(other_order(), {7, 3, 6}), learn(task(pairs()), {4, 0, 3}));
  }
}

TEST_F(MixedTask, ItemsAreTheSetsOneBehindTheOther) {
  const EmbeddingTask mixed = task(pairs(), scored("cosine")), alone = task(scored("cosine"));
  EXPECT_EQ(mixed.size(), 5 + 2 + 3);
  EXPECT_EQ(mixed.rows(0, 1).first, 5);
  EXPECT_EQ(mixed.rows(1, 0).first, 7);
  EXPECT_EQ(mixed.rows(1, 1).size(), 0);
  EXPECT_EQ(mixed.cost(5), 2 * (2 + 2));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(mixed.cost(7 + i), alone.cost(i)) << i;
  EXPECT_EQ(mixed.scope(Items{0, 1}), LossScope::global_batch);
  EXPECT_EQ(mixed.scope(Items{7, 8}), LossScope::item);
}

// Rows 0 and 2 have one positive, row 3's anchor is row 0's positive, 4 and 5 have one anchor: as
// sentence-transformers' NoDuplicatesBatchSampler, which looks at all columns.
TEST_F(MixedTask, NoTextIsInTwoRowsOfABatch) {
  prepare("first", "a\nc\nd\nb b\nf\nf\nh h\n");
  prepare("second", "b b\nc c\nb b\ne\ng\ng g\nh h\n");
  const auto rows = [&](const std::string& loss, std::vector<std::string> prompts) {
    LearntRows of;
    of.files.push_back(columns({"first", "second"}));
    of.options.loss = loss, of.prompts = std::move(prompts);
    return of;
  };
  const auto pairs_in_a_batch = [](const EmbeddingTask& task) {
    std::set<Items> found;
    for (std::int64_t seed = 0; seed < 60; ++seed) {
      TrainOptions options;
      options.seed = seed;
      Sampler sampler(task, options, {.no_duplicates = true}, 2);
      do {
        Items batch = sampler.next();
        std::ranges::sort(batch);
        if (batch.size() == 2) found.insert(batch);
      } while (!sampler.epoch_over());
    }
    return found;
  };
  std::set<Items> all, apart;
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t j = i + 1; j < 7; ++j) all.insert({i, j});
  apart = all;
  for (const Items& pair : {Items{0, 2}, {0, 3}, {2, 3}, {4, 5}}) apart.erase(pair);
  EXPECT_EQ(pairs_in_a_batch(task(rows("mnrl", {}))), apart);
  EXPECT_EQ(pairs_in_a_batch(task(rows("cosent", {}))), all) << "no row is another's negative";
}

// "b b" behind "c " is the text "b b" of another column, which has no prompt.
TEST_F(MixedTask, APromptHidesNoText) {
  prepare("asked", "c a\nc b b\nc d\n");
  prepare("answers", "b b\ne\ng\n");
  LearntRows rows;
  rows.files.push_back(columns({"asked", "answers"}));
  rows.prompts = {"c ", ""};
  const EmbeddingTask found = task(std::move(rows));
  const auto shared = [&](std::int64_t i, std::int64_t j) {
    const Items keys = found.keys(i), others = found.keys(j);
    return std::ranges::find_first_of(keys, others) != keys.end();
  };
  EXPECT_TRUE(shared(0, 1));
  EXPECT_FALSE(shared(0, 2));
  EXPECT_FALSE(shared(1, 2));
}

}  // namespace
}  // namespace gpuhpc
