// A toy task whose loss is over the whole global batch: pairs, each one's positive among those of
// all others (in-batch negatives), with a temperature that is learnt. The file holds all that such
// a task needs; `Trainer(arena, task, options, context).run()` is the one line that trains it. One
// answer for every micro-batch, number of ranks, room for graphs and retry. Run on 1, 2 and 4
// ranks.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/device/memory.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t pairs = 37, features = 9, vector_size = 6;

struct PairModel {
  struct Parameter {
    std::string name;
    at::Tensor value;
  };
  const std::vector<Parameter>& parameters() const { return values; }
  void rebind(std::size_t i, at::Tensor view) { values[i].value = std::move(view); }
  at::Tensor vectors(const at::Tensor& rows, double dropout, std::uint64_t seed) const {
    const at::Tensor hidden =
        seeded_dropout(at::tanh(at::linear(rows, values[0].value, values[1].value)), dropout,
                       make_generator(at::kCPU, seed));
    return hidden / (hidden.square().sum(1, /*keepdim=*/true) + 1e-6).sqrt();
  }
  // Cross-entropy of each anchor with the positives of all (van den Oord et al. 2018).
  at::Tensor loss(const at::Tensor& anchors, const at::Tensor& positives) const {
    const at::Tensor scores = at::matmul(anchors, positives.t()) * values[2].value.exp();
    return at::log_softmax(scores, 1).diagonal().sum().neg();
  }
  std::vector<Parameter> values{{"weight", random_tensor({vector_size, features}, 21, .5)},
                                {"bias", random_tensor({vector_size}, 22, .1)},
                                {"temperature", random_tensor({1}, 23, .3)}};
};

at::Tensor rows_of(const at::Tensor& table, std::span<const std::int64_t> items) {
  return table.index_select(0, at::tensor(std::vector<std::int64_t>(items.begin(), items.end())));
}

const at::Tensor anchors = random_tensor({pairs, features}, 24, 1).detach(),
                 positives = anchors * .7 + random_tensor({pairs, features}, 25, 1).detach() * .3;

class PairsTask final : public Task {
 public:
  explicit PairsTask(int ranks, double dropout = 0)
      : arena({{"model", 1e5, 0, trained_parameters(model)}}, ranks), dropout_(dropout) {}
  std::int64_t size() const override { return pairs; }
  std::int64_t cost(std::int64_t item) const override { return 3 + item * 5 % 11; }
  LossScope scope(std::span<const std::int64_t>) const override { return LossScope::global_batch; }
  at::Tensor represent(std::span<const std::int64_t> items, DropoutSeed seed) override {
    if (failing) failing(items);
    const auto part = [&](const at::Tensor& table, std::uint64_t number) {
      return model.vectors(rows_of(table, items), seed ? dropout_ : 0, seed.value_or(0) + number);
    };
    const at::Tensor rows = at::cat({part(anchors, 0), part(positives, 1)}, 1);
    std::vector<at::Tensor>& passes = seen[{items.begin(), items.end()}];
    passes.push_back(rows.detach());
    return rows;
  }
  LossSum batch_loss(const at::Tensor& rows, std::span<const std::int64_t> items) override {
    const auto count = static_cast<double>(items.size());
    const at::Tensor sum =
        model.loss(rows.narrow(1, 0, vector_size), rows.narrow(1, vector_size, vector_size));
    return one_value ? LossSum{sum / count, 1} : LossSum{sum, count};
  }
  bool one_value = false;  // per batch, their mean
  std::function<void(std::span<const std::int64_t>)> failing;
  std::map<std::vector<std::int64_t>, std::vector<at::Tensor>> seen;
  PairModel model;
  ParameterArena arena;

 private:
  double dropout_;
};

// With so large an epsilon AdamW is plain gradient descent of rate 1e5 / 1e6 = .1.
TrainOptions descent(std::int64_t micro_batch) {
  TrainOptions options;
  options.epochs = 3;
  options.batch = 12;
  options.micro_batch = micro_batch;
  options.precision = "fp32";
  options.rate_rule = "none";
  options.epsilon = 1e6, options.beta1 = 0, options.beta2 = 0;
  options.clip = 0, options.warmup = 0, options.decay = "constant";
  return options;
}

struct PairsOutcome {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> micro_batches;
  std::vector<float> weights;  // without padding
};

void add_weights(const PairModel& model, std::vector<float>& weights) {
  for (const auto& parameter : model.values) {
    const at::Tensor value = parameter.value.detach().contiguous();
    weights.insert(weights.end(), value.const_data_ptr<float>(),
                   value.const_data_ptr<float>() + value.numel());
  }
}

// The definition: automatic differentiation over each whole batch, w -= .1 x mean gradient.
PairsOutcome reference() {
  PairModel model;
  PairsOutcome outcome;
  const PairsTask task(1);
  Sampler sampler(task, descent(0), descent(0).course(), 12);
  for (std::int64_t step = 0; step < sampler.total_steps(); ++step) {
    const std::vector<std::int64_t> batch = sampler.next();
    const auto count = static_cast<double>(batch.size());
    const at::Tensor loss = model.loss(model.vectors(rows_of(anchors, batch), 0, 0),
                                       model.vectors(rows_of(positives, batch), 0, 0)) /
                            count;
    loss.backward();
    double square = 0;
    for (auto& parameter : model.values) {
      at::Tensor& value = parameter.value;
      square += value.grad().square().sum().item<double>();
      const c10::NoGradGuard no_grad;
      value.sub_(value.grad(), .1);
      value.mutable_grad().reset();
    }
    outcome.losses.push_back(loss.item<double>());
    outcome.norms.push_back(std::sqrt(square));
  }
  add_weights(model, outcome.weights);
  return outcome;
}

// `room`: for the graphs of a first pass.
PairsOutcome train(PairsTask& task, std::int64_t micro_batch, Communicator& comm,
                   const std::string& strategy = "ddp", std::optional<std::int64_t> room = {}) {
  limit_host_memory(0);  // tensors are counted from here on
  PairsOutcome outcome;
  ParallelOptions parallel;
  parallel.strategy = strategy;
  Trainer(task.arena, task, descent(micro_batch),
          {.comm = comm,
           .parallel = parallel,
           .room_for_graphs = room,
           .report =
               [&](const StepReport& r) {
                 outcome.losses.push_back(r.loss), outcome.norms.push_back(r.gradient_norm);
                 outcome.micro_batches.push_back(r.micro_batch);
               }})
      .run();
  add_weights(task.model, outcome.weights);
  return outcome;
}

void expect_near(const PairsOutcome& found, const PairsOutcome& wanted) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-5) << "step " << i + 1;
    EXPECT_NEAR(found.norms[i], wanted.norms[i], 1e-5) << "step " << i + 1;
  }
  for (std::size_t i = 0; i < wanted.weights.size(); ++i)
    EXPECT_NEAR(found.weights[i], wanted.weights[i], 1e-5) << i;
}

TEST(Pairs, OneAnswerForEveryMicroBatchAndAnyRanks) {
  const auto comm = MpiSession::world();
  const PairsOutcome wanted = reference();
  ASSERT_EQ(wanted.losses.size(), 12U);
  ASSERT_LT(wanted.losses[8], wanted.losses[0]);
  for (const char* strategy : {"ddp", "zero1"})
    for (const std::int64_t micro : {0, 1, 3, 5, 12})
      for (const std::optional<std::int64_t> room : {std::optional<std::int64_t>(0), {}}) {
        SCOPED_TRACE(fmt::format("{}, micro-batch {}, {} room for graphs", strategy, micro,
                                 room ? "no" : "much"));
        PairsTask task(comm->size());
        expect_near(train(task, micro, *comm, strategy, room), wanted);
      }
}

TEST(Pairs, AnyNumberOfRanksGivesTheSameBits) {
  const auto comm = MpiSession::world(), alone = make_single_communicator();
  for (const std::optional<std::int64_t> room : {std::optional<std::int64_t>(0), {}}) {
    PairsTask many(comm->size(), .2), one(1, .2);
    EXPECT_EQ(train(many, 3, *comm, "ddp", room).weights, train(one, 3, *alone).weights);
  }
}

// After a few steps no more than two pairs at once fit on the last rank, in the first pass or
// in the second.
TEST(Pairs, RunningOutOfMemoryChangesNothing) {
  const auto comm = MpiSession::world();
  for (const bool in_second_pass : {false, true}) {
    PairsTask task(comm->size());
    std::int64_t calls = 0, failures = 0;
    task.failing = [&](std::span<const std::int64_t> items) {
      if (++calls < 4 || items.size() <= 2 || comm->rank() != comm->size() - 1 ||
          task.seen.contains({items.begin(), items.end()}) != in_second_pass)
        return;
      ++failures;
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
    };
    SCOPED_TRACE(in_second_pass ? "second pass" : "first pass");
    expect_near(train(task, 3, *comm, "ddp", 0), reference());
    // of four ranks each has one micro-batch, and keeps its graph
    const bool some = comm->rank() == comm->size() - 1 && (!in_second_pass || comm->size() < 4);
    EXPECT_EQ(failures, some ? 1 : 0);
  }
}

// What memory has room for is computed once. Where it runs out of that, one graph is kept from then
// on, and micro-batches stay as large.
TEST(Pairs, KeepsTheGraphsThatFit) {
  const auto alone = make_single_communicator();
  limit_host_memory(0);
  std::int64_t graph = 0;
  {
    PairsTask task(1);
    const std::int64_t before = host_memory().used;
    const at::Tensor rows = task.represent(std::vector<std::int64_t>{5, 9, 2, 30}, 0);
    graph = host_memory().used - before;
  }
  ASSERT_GT(graph, 0);
  const std::vector<std::pair<std::int64_t, std::int64_t>> calls_by_room{
      {0, 5}, {graph * 3 / 2, 4}, {graph * 9, 3}};  // of three micro-batches
  for (const auto& [room, calls] : calls_by_room) {
    PairsTask task(1);
    std::int64_t computed = 0;
    task.failing = [&](std::span<const std::int64_t>) { ++computed; };
    Trainer(task.arena, task, descent(4), {.comm = *alone, .room_for_graphs = room}).step();
    EXPECT_EQ(computed, calls) << room << " bytes, " << graph << " each";
  }

  const auto comm = MpiSession::world();
  PairsTask task(comm->size());
  std::int64_t calls = 0, failures = 0;
  const bool last = comm->rank() == comm->size() - 1;
  task.failing = [&](std::span<const std::int64_t>) {
    if (++calls < 5 || failures > 0 || !last || !c10::GradMode::is_enabled()) return;
    ++failures;
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
  };
  const PairsOutcome outcome = train(task, 2, *comm);  // several per rank
  expect_near(outcome, reference());
  EXPECT_EQ(failures, last ? 1 : 0);
  EXPECT_EQ(outcome.micro_batches[10], 2);  // the last whole batch
}

TEST(Pairs, AnErrorOnOneRankIsThrownOnAll) {
  const auto comm = MpiSession::world();
  PairsTask task(comm->size());
  std::int64_t calls = 0;
  task.failing = [&](std::span<const std::int64_t>) {
    if (comm->rank() == comm->size() - 1 && ++calls == 4) throw input_error("shard 7 is cut");
  };
  try {
    train(task, 3, *comm);
    FAIL() << "no error on rank " << comm->rank();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shard 7 is cut");
  }
}

// Both passes drop the same: or the gradient would belong to other vectors than the loss.
TEST(Pairs, BothPassesSeeTheSameDropout) {
  const auto alone = make_single_communicator();
  PairsTask task(1, .3);
  Trainer(task.arena, task, descent(5), {.comm = *alone, .room_for_graphs = 0}).step();
  ASSERT_EQ(task.seen.size(), 3U);
  std::int64_t once = 0;  // whose graph is kept
  for (const auto& [items, passes] : task.seen) {
    once += passes.size() == 1;
    EXPECT_TRUE(passes.front().equal(passes.back()));
    EXPECT_GT((passes[0] == 0).sum().item<std::int64_t>(), 0) << "something is dropped";
  }
  EXPECT_EQ(once, 1);
}

// Negatives of a validation are those of batches of the training's size. A batch weighs as its rows
// do, also where its loss is one value: the last one is short.
TEST(Pairs, TheValidationLossIsOfWholeBatchesWithoutDropout) {
  const auto comm = MpiSession::world();
  PairsTask task(comm->size(), .3);
  std::vector<std::int64_t> items;
  for (std::int64_t i = 0; i < 17; ++i) items.push_back(2 * i + 1);
  double sum = 0;
  for (const auto part : {std::span(items).first(12), std::span(items).subspan(12)})
    sum += task.model
               .loss(task.model.vectors(rows_of(anchors, part), 0, 0),
                     task.model.vectors(rows_of(positives, part), 0, 0))
               .item<double>();
  for (const bool one_value : {false, true})
    for (const std::int64_t micro : {0, 3, 12}) {
      task.one_value = one_value;
      EXPECT_NEAR(Trainer(task.arena, task, descent(micro), {.comm = *comm}).mean_loss(items),
                  sum / 17, 1e-6)
          << micro;
    }
}

}  // namespace
}  // namespace gpuhpc
