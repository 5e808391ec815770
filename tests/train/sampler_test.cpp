// Global batches: what comes in which, and that nothing but the permutation is kept.
#include "gpuhpc/train/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

using Items = std::vector<std::int64_t>;

// Items that cost 1 to 40 tokens; every `same`-th one has the same key.
class Numbers final : public Task {
 public:
  explicit Numbers(std::int64_t items, std::int64_t same = 1 << 30) : items_(items), same_(same) {}
  std::int64_t size() const override { return items_; }
  std::int64_t cost(std::int64_t item) const override { return 1 + item * 7 % 40; }
  std::vector<std::int64_t> keys(std::int64_t item) const override { return {item % same_}; }

 private:
  std::int64_t items_, same_;
};

Items numbers(std::int64_t first, std::int64_t last) {
  Items all(static_cast<std::size_t>(last - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

TrainOptions seeded(std::int64_t seed = 42) {
  TrainOptions options;
  options.seed = seed;
  return options;
}

std::vector<Items> next_epoch(Sampler& sampler) {
  std::vector<Items> batches{sampler.next()};
  while (!sampler.epoch_over()) batches.push_back(sampler.next());
  return batches;
}

Items joined(const std::vector<Items>& batches) {
  Items all;
  for (const Items& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

// The contract with runs of older programs: Philox by (seed, epoch), cut in order.
TEST(Sampler, AnEpochIsOnePermutationBySeedAndEpochCutInOrder) {
  const Numbers task(103);
  Sampler sampler(task, seeded(), {.epochs = 3}, 10);
  EXPECT_EQ(sampler.total_steps(), 33);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    Items order = numbers(0, 103);
    RandomStream(42, epoch).shuffle(order);
    const auto batches = next_epoch(sampler);
    ASSERT_EQ(batches.size(), 11U);
    EXPECT_EQ(batches.back().size(), 3U);
    EXPECT_EQ(joined(batches), order);
    EXPECT_EQ(sampler.epoch(), static_cast<std::int64_t>(epoch));
  }
  Sampler other(task, seeded(43), {}, 10), same(task, seeded(), {}, 10);
  EXPECT_NE(next_epoch(other), next_epoch(same));
}

TEST(Sampler, ByTokensEveryItemOnceAndNoMoreThanTheBudget) {
  const Numbers task(200);
  for (const std::int64_t budget : {1, 30, 500, 1'000'000}) {
    TrainOptions options = seeded();
    options.batch_tokens = budget;
    Sampler sampler(task, options, {.epochs = 2}, 32), whole(task, seeded(), {}, 200);
    const auto batches = next_epoch(sampler);
    std::size_t largest = 0;
    for (const Items& batch : batches) {
      std::int64_t tokens = 0;
      for (const std::int64_t item : batch) tokens += task.cost(item);
      EXPECT_TRUE(tokens <= budget || batch.size() == 1) << tokens << " tokens of " << budget;
      largest = std::max(largest, batch.size());
    }
    EXPECT_EQ(joined(batches), whole.next());  // the same shuffle
    EXPECT_EQ(sampler.largest_batch(), static_cast<std::int64_t>(largest));
    EXPECT_EQ(sampler.total_steps(),
              static_cast<std::int64_t>(batches.size() + next_epoch(sampler).size()));
  }
}

TEST(Sampler, WhatIsHeldOutIsADrawBySeedAloneAndNeverLearnt) {
  const HeldOut parts = hold_out(103, .1, 42);
  EXPECT_EQ(parts.validation.size(), 10U);
  Items all = parts.learnt;
  all.insert(all.end(), parts.validation.begin(), parts.validation.end());
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(numbers(0, 103)));
  EXPECT_EQ(parts.validation, hold_out(103, .1, 42).validation);
  EXPECT_NE(parts.validation, hold_out(103, .1, 43).validation);
  const Numbers task(103);
  Sampler sampler(task, seeded(), {.validation = .1}, 10);
  EXPECT_EQ(sampler.validation(), parts.validation);
  EXPECT_THAT(joined(next_epoch(sampler)), testing::UnorderedElementsAreArray(parts.learnt));
  EXPECT_THROW(Sampler(task, seeded(), {.validation = .001}, 10), Error);
}

// What is left in the end makes one batch, not one for each time that a key comes once more.
TEST(Sampler, NoKeyComesTwiceInABatchButTheLastAndEveryItemOnceAnEpoch) {
  for (const std::int64_t keys : {7, 20, 90}) {
    const Numbers task(103, keys);
    Sampler sampler(task, seeded(), {.epochs = 2, .no_duplicates = true}, 10);
    std::int64_t steps = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto batches = next_epoch(sampler);
      for (const Items& batch : batches) {
        if (&batch == &batches.back() && 2 * batch.size() < 10) continue;
        std::set<std::int64_t> seen;
        for (const std::int64_t item : batch)
          EXPECT_TRUE(seen.insert(item % keys).second) << keys << ": key " << item % keys;
      }
      EXPECT_THAT(joined(batches), testing::UnorderedElementsAreArray(numbers(0, 103)));
      steps += std::ssize(batches);
      if (keys == 90) {
        EXPECT_EQ(batches.size(), 11U);
      }
    }
    EXPECT_EQ(sampler.total_steps(), steps);
  }
  // Each key three or four times, batches as large as the epoch.
  const Numbers task(103, 30);
  Sampler sampler(task, seeded(), {.no_duplicates = true}, 103);
  std::vector<std::size_t> sizes;
  for (const Items& batch : next_epoch(sampler)) sizes.push_back(batch.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{30, 30, 43}));
}

// Neighbours share a key, each one's second and the next one's first.
TEST(Sampler, AnItemIsPutOffForAnyOfItsKeys) {
  class Chain final : public Task {
   public:
    std::int64_t size() const override { return 60; }
    std::int64_t cost(std::int64_t) const override { return 1; }
    std::vector<std::int64_t> keys(std::int64_t item) const override {
      return {item, item + 1, item};
    }
  };
  const Chain task;
  Sampler sampler(task, seeded(), {.no_duplicates = true}, 20), alike(task, seeded(), {}, 20);
  const auto neighbours = [](const std::vector<Items>& batches) {
    std::int64_t found = 0;
    for (const Items& batch : batches)
      for (const std::int64_t item : batch) found += std::ranges::count(batch, item + 1);
    return found;
  };
  const auto batches = next_epoch(sampler);
  EXPECT_EQ(neighbours(batches), 0);
  EXPECT_THAT(joined(batches), testing::UnorderedElementsAreArray(numbers(0, 60)));
  EXPECT_GT(neighbours(next_epoch(alike)), 0);
}

// 50,000 items of one key: each batch is one item, and looks at a bounded number of others.
TEST(Sampler, OneKeyForAllDoesNotMakeAStepLong) {
  class Counting final : public Task {
   public:
    std::int64_t size() const override { return 50'000; }
    std::int64_t cost(std::int64_t) const override { return 1; }
    std::vector<std::int64_t> keys(std::int64_t) const override { return ++asked, Items{0}; }
    mutable std::int64_t asked = 0;
  };
  const Counting task;
  Sampler sampler(task, seeded(), {.max_steps = 20, .no_duplicates = true}, 8);
  task.asked = 0;
  for (int step = 0; step < 20; ++step) EXPECT_EQ(sampler.next().size(), 1U);
  EXPECT_LE(task.asked, 20 * 2100);
}

// The multi-dataset samplers of sentence-transformers: as many batches of each corpus and as large;
// round-robin in the same order.
TEST(Sampler, CorporaAreMixedAsSentenceTransformersDoes) {
  std::ifstream file(GPUHPC_FIXTURES "/mixing.json");
  for (const Json& example : Json::parse(file)) {
    const auto rows = example.at("rows").get<std::vector<std::int64_t>>();
    Course course;
    std::int64_t items = 0;
    for (const std::int64_t size : rows)
      course.corpora.push_back({{items, items + size}}), items += size;
    const Numbers task(items);
    for (const auto& [mixing, name] :
         {std::pair{Mixing::proportional, "proportional"}, {Mixing::round_robin, "round_robin"}}) {
      course.mixing = mixing;
      Sampler sampler(task, seeded(), course, example.at("batch"));
      std::vector<std::vector<std::int64_t>> batches;
      std::set<std::int64_t> seen;
      do {
        const Items batch = sampler.next();
        const Range& of = course.corpora[sampler.corpus()].items;
        for (const std::int64_t item : batch) {
          EXPECT_TRUE(item >= of.first && item < of.last && seen.insert(item).second) << item;
        }
        batches.push_back({static_cast<std::int64_t>(sampler.corpus()), std::ssize(batch)});
      } while (!sampler.epoch_over());
      EXPECT_EQ(sampler.total_steps(), std::ssize(batches));
      auto expected = example.at(name).get<std::vector<std::vector<std::int64_t>>>();
      if (mixing == Mixing::proportional) std::ranges::sort(expected), std::ranges::sort(batches);
      EXPECT_EQ(batches, expected) << name << " " << example.at("rows");
    }
  }
}

std::string turns(Sampler& sampler) {
  std::string turns;
  do {
    sampler.next();
    turns += static_cast<char>('a' + sampler.corpus());
  } while (!sampler.epoch_over());
  return turns;
}

TEST(Sampler, CorporaAreSpreadByWeight) {
  const Numbers task(160);
  Course course{.corpora = {{{0, 40}}, {{40, 160}}}};
  const auto of = [&](Mixing mixing, double first, double second) {
    course.mixing = mixing;
    course.corpora[0].weight = first, course.corpora[1].weight = second;
    Sampler sampler(task, seeded(), course, 10);
    return turns(sampler);
  };
  EXPECT_EQ(of(Mixing::proportional, 1, 1), "babbbabbbabbbabb");
  EXPECT_EQ(of(Mixing::proportional, 2, .5), "abababaabababa");  // 80 and 60 items
  EXPECT_EQ(of(Mixing::round_robin, 3, 1), "aaabaaab");          // the third round has no new a
  course.corpora[1].items.last = 75;                             // 35 items, half of them: 10 and 8
  EXPECT_EQ(of(Mixing::proportional, .5, .5), "abab");
  const Numbers fewer(75);
  Sampler sampler(fewer, seeded(), course, 10);
  EXPECT_EQ(
      sampler.next().size() + sampler.next().size() + sampler.next().size() + sampler.next().size(),
      38U);
}

// From any batch on, whatever the kind of sampling: the rest is the same.
TEST(Sampler, GoesOnFromAnyPosition) {
  const Numbers task(160, 23);
  TrainOptions by_tokens = seeded();
  by_tokens.batch_tokens = 150;
  const std::vector<std::pair<TrainOptions, Course>> kinds = {
      {seeded(), {}},
      {by_tokens, {.validation = .2}},
      {seeded(), {.no_duplicates = true}},
      {by_tokens, {.corpora = {{{0, 40}, 3}, {{40, 160}, 1}}, .no_duplicates = true}},
      {seeded(), {.corpora = {{{0, 40}, 3}, {{40, 160}}}, .mixing = Mixing::round_robin}}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto& [options, course] = kinds[kind];
    std::vector<Items> whole;
    std::vector<std::pair<std::int64_t, std::int64_t>> places;
    Sampler sampler(task, options, course, 12);
    for (int step = 0; step < 40; ++step) {
      whole.push_back(sampler.next());
      places.emplace_back(sampler.epoch(), sampler.batch());
    }
    for (std::size_t at = 0; at < 39; at += 3) {
      Sampler later(task, options, course, 12);
      later.seek(places[at].first, places[at].second);
      for (std::size_t step = at + 1; step < 40; ++step)
        ASSERT_EQ(later.next(), whole[step]) << "kind " << kind << " from " << at;
    }
  }
}

}  // namespace
}  // namespace gpuhpc
