// The graph classifier's head learns on a GPU what it learns on the processor: its own loss, batch
// by batch, through the Trainer.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "../gpu.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/ops.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/class_graph.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t documents = 48, width = 32;
constexpr ClassId classes = 40;

// Three children each, and here and there a second parent.
Taxonomy make_taxonomy() {
  std::vector<std::string> names;
  std::vector<TaxonomyEdge> edges;
  for (ClassId c = 0; c < classes; ++c) {
    names.push_back("class " + std::to_string(c));
    if (c > 0) edges.push_back({(c - 1) / 3, c});
    if (c > 20 && c % 5 == 0) edges.push_back({c / 3 + 1, c});
  }
  return {names, edges};
}

Matrix random_rows(std::int64_t rows, std::int64_t columns, std::uint64_t stream) {
  Matrix matrix(rows, columns);
  RandomStream random(7, stream);
  for (float& value : matrix.values) value = static_cast<float>(2 * random.uniform() - 1);
  return matrix;
}

// Positives with what lies above them; what lies below does not count.
MultiLabelTargets make_labels(const Taxonomy& taxonomy) {
  MultiLabelTargets labels;
  for (std::int64_t d = 0; d < documents; ++d) {
    const auto c = static_cast<ClassId>((d * 7 + 3) % classes);
    std::vector<ClassId> positives(taxonomy.ancestors(c).begin(), taxonomy.ancestors(c).end());
    positives.push_back(c);
    labels.positives.append(positives);
    labels.ignored.append(taxonomy.descendants(c));
  }
  return labels;
}

// Documents are rows that do not learn, so that the head alone is compared.
struct HeadTask : PackedTask {
  HeadTask(at::Device place, bool residual)
      : PackedTask([this](const PackedIds& batch, DropoutSeed) { return of(batch); }),
        device(place),
        taxonomy(make_taxonomy()),
        labels(make_labels(taxonomy)),
        rows(random_rows(documents, width, 1)),
        head(taxonomy, random_rows(classes, width, 2).view(), std::vector<float>(classes, -1.F),
             std::vector<float>(width, .025F),
             {.hidden = 24, .layers = 3, .residual = residual, .scale = 4}, 3, place) {
    arena.emplace(split_by_decay("graph", 1e-2, .01, trained_parameters(head)));
  }
  std::int64_t size() const override { return documents; }
  std::int64_t cost(std::int64_t) const override { return 1; }
  PackedIds pack(std::span<const std::int64_t> items) const override {
    PackedIds packed;
    for (const std::int64_t item : items) {
      packed.token_ids.push_back(0);
      packed.offsets.push_back(static_cast<std::int32_t>(packed.token_ids.size()));
      packed.documents.push_back(item);
    }
    return packed;
  }
  LossSum of(const PackedIds& batch) const {
    const MultiLabelBatch wanted = gather_labels(labels, classes, batch.documents);
    const at::Tensor logits =
        head.logits(unit_rows(to_device(gather_rows(rows.view(), batch.documents), device)));
    return {masked_binary_cross_entropy(logits, to_device(wanted.targets, device),
                                        to_device(wanted.mask, device)),
            static_cast<double>(batch.size())};
  }
  at::Device device;
  Taxonomy taxonomy;
  MultiLabelTargets labels;
  Matrix rows;
  ClassGraphHead head;
  std::optional<ParameterArena> arena;
};

struct Outcome {
  std::vector<StepReport> reports;
  at::Tensor weights;
};

Outcome train(HeadTask& task) {
  const auto comm = make_single_communicator();
  TrainOptions options;
  options.epochs = 2, options.batch = 12, options.micro_batch = 0;
  options.precision = "fp32", options.rate_rule = "none";
  Outcome outcome;
  Trainer(*task.arena, task, options,
          {.comm = *comm, .report = [&](const StepReport& r) { outcome.reports.push_back(r); }})
      .run();
  outcome.weights = task.arena->parameters().detach().to(at::kCPU);
  return outcome;
}

TEST(ClassGraphOnGpu, LearnsWhatItLearnsOnTheProcessor) {
  for (const bool residual : {false, true}) {
    HeadTask here(at::kCPU, residual), there(gpu(), residual);
    const at::Tensor start = here.arena->parameters().detach().clone();
    EXPECT_LE(distance(there.head.class_tensor(), here.head.class_tensor()), 1e-5) << residual;
    const Outcome wanted = train(here), ours = train(there);
    EXPECT_GT(distance(wanted.weights, start), 1e-2) << residual << ": nothing was learnt";
    ASSERT_EQ(ours.reports.size(), 8U);
    for (std::size_t step = 0; step < 8; ++step) {
      EXPECT_NEAR(ours.reports[step].loss / wanted.reports[step].loss, 1, 1e-4) << step;
      EXPECT_NEAR(ours.reports[step].gradient_norm / wanted.reports[step].gradient_norm, 1, 1e-3)
          << step;
    }
    EXPECT_LE(distance(ours.weights, wanted.weights), 1e-2) << residual;
  }
}

}  // namespace
}  // namespace gpuhpc
