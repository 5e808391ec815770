// The whole of a task on real weights and real text: the student (quality recipe, step 11) and
// the bilinear head.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

// Documents given as token ids, specials included.
class IdTask final : public PackedTask {
 public:
  explicit IdTask(std::vector<std::vector<std::int32_t>> documents, Loss loss = {},
                  Targets targets = {})
      : PackedTask(std::move(loss), std::move(targets)), documents_(std::move(documents)) {}
  std::int64_t size() const override { return std::ssize(documents_); }
  std::int64_t cost(std::int64_t item) const override {
    return std::ssize(documents_[static_cast<std::size_t>(item)]);
  }
  PackedIds pack(std::span<const std::int64_t> items) const override {
    PackedIds packed;
    for (const std::int64_t item : items)
      packed.add(item, documents_[static_cast<std::size_t>(item)], {});
    return packed;
  }

 private:
  std::vector<std::vector<std::int32_t>> documents_;
};

struct Student : testing::Test {
  nlohmann::json fixture = [] {
    std::ifstream file(GPUHPC_FIXTURES "/student.json");
    return nlohmann::json::parse(file);
  }();
  IdTask documents{fixture["documents"]}, names{fixture["classes"]};
  LoadedEncoder model = load_encoder(GPUHPC_MODELS "/all-MiniLM-L6-v2");
  std::unique_ptr<Communicator> comm = make_single_communicator();
  std::vector<StepReport> reports;

  Student() { at::set_num_threads(1); }  // the curve's last bits depend on the number of threads

  Matrix embed(const IdTask& source) {
    const c10::NoGradGuard no_grad;
    Matrix rows(source.size(), model.model.encoder.hidden_size);
    for (std::int64_t first = 0; first < source.size(); first += 20) {
      std::vector<std::int64_t> items(
          static_cast<std::size_t>(std::min<std::int64_t>(20, source.size() - first)));
      std::iota(items.begin(), items.end(), first);
      const at::Tensor part = vectors(source.pack(items), at::kFloat);
      std::copy_n(part.const_data_ptr<float>(), part.numel(), rows.row(first).data());
    }
    return rows;
  }
  TrainOptions options() const {
    TrainOptions result;
    result.batch = result.base_batch = fixture["batch"];  // the fixture's rates as they are
    result.epochs = fixture["epochs"];
    result.seed = fixture["seed"];
    return result;
  }
  TrainSummary train(ParameterArena& parameters, const PackedTask::Loss& loss,
                     const PackedTask::Targets& targets = {}) {
    IdTask task(fixture["documents"], loss, targets);
    return Trainer(parameters, task, options(),
                   {.comm = *comm, .report = [this](const StepReport& r) { reports.push_back(r); }})
        .run();
  }
  template <typename Head>
  ParameterArena arena(Head& head, std::int64_t layers = 3, double encoder_rate = 3e-5,
                       double head_rate = 1e-3) {
    model.encoder.train_top_layers(layers);
    auto groups = split_by_decay("encoder", encoder_rate, .01, trained_parameters(model.encoder));
    const auto more = split_by_decay("head", head_rate, .01, trained_parameters(head));
    groups.insert(groups.end(), more.begin(), more.end());
    return ParameterArena(groups);
  }
  at::Tensor vectors(const PackedIds& batch, at::ScalarType compute) {
    ForwardOptions forward;
    forward.compute = compute;
    return model.encoder.embed(pack_tokens(batch.token_ids, batch.offsets, at::kCPU),
                               model.model.embedding, forward);
  }
};

void make_unit(std::span<float> row) {
  const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  for (float& value : row) value = static_cast<float>(value / norm);
}

std::vector<float> half_of_mean(const Matrix& matrix) {
  std::vector<float> means(static_cast<std::size_t>(matrix.columns));
  for (std::int64_t c = 0; c < matrix.columns; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < matrix.rows; ++r)
      sum += matrix.row(r)[static_cast<std::size_t>(c)];
    means[static_cast<std::size_t>(c)] =
        static_cast<float>(.5 * sum / static_cast<double>(matrix.rows));
  }
  return means;
}

// unit(row - common)
Matrix centred(Matrix matrix, const std::vector<float>& common) {
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::size_t c = 0; c < common.size(); ++c) matrix.row(r)[c] -= common[c];
    make_unit(matrix.row(r));
  }
  return matrix;
}

// What the fixture's script computes before it trains: class vectors, hub similarities, sharpened
// soft targets.
struct SoftTargets {
  std::vector<float> common, hub;
  Matrix class_vectors, targets;
};
SoftTargets soft_targets(const Matrix& documents, const Matrix& classes) {
  SoftTargets result{half_of_mean(documents),
                     {},
                     centred(classes, half_of_mean(classes)),
                     Matrix(documents.rows, classes.rows)};
  const Matrix x = centred(documents, result.common);
  for (std::int64_t k = 0; k < classes.rows; ++k) {
    std::vector<float> column;
    for (std::int64_t d = 0; d < x.rows; ++d) {
      const std::span<const float> a = x.row(d), b = result.class_vectors.row(k);
      column.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0F));
      result.targets.row(d)[static_cast<std::size_t>(k)] = column.back();
    }
    std::partial_sort(column.begin(), column.begin() + 10, column.end(), std::greater<>());
    result.hub.push_back(std::accumulate(column.begin(), column.begin() + 10, 0.0F) / 10);
  }
  std::vector<double> mass(result.hub.size());
  for (std::int64_t d = 0; d < x.rows; ++d) {
    double sum = 0;
    auto row = result.targets.row(d);
    for (std::size_t k = 0; k < row.size(); ++k)
      sum += row[k] = std::exp(20 * (row[k] - .25F * result.hub[k]));
    for (std::size_t k = 0; k < row.size(); ++k) mass[k] += row[k] /= static_cast<float>(sum);
  }
  for (std::int64_t d = 0; d < x.rows; ++d) {
    double sum = 0;
    auto row = result.targets.row(d);
    for (std::size_t k = 0; k < row.size(); ++k)
      sum += row[k] = static_cast<float>(row[k] * row[k] / mass[k]);
    for (float& value : row) value = static_cast<float>(value / sum);
  }
  return result;
}

// Stated tolerance: each of the 12 losses within 1e-4 (relative), gradient norms within 1e-3, of
// PyTorch's padded training.
TEST_F(Student, FollowsTheLossCurveOfPyTorch) {
  const SoftTargets soft = soft_targets(embed(documents), embed(names));
  PathClassifier head(soft.class_vectors.view(), soft.common, soft.hub);
  ParameterArena parameters = arena(head);
  const auto loss = [&](const TargetedIds& batch, DropoutSeed) {
    const at::Tensor logits = head.logits(vectors(batch, at::kFloat));
    return LossSum{soft_target_cross_entropy(logits, batch.targets[0]),
                   static_cast<double>(batch.documents.size())};
  };
  const auto targets = [&](std::span<const std::int64_t> of) {
    return std::vector{gather_rows(soft.targets.view(), of)};
  };
  const TrainSummary summary = train(parameters, loss, targets);
  const std::vector<double> losses = fixture["losses"], norms = fixture["norms"];
  ASSERT_EQ(reports.size(), losses.size());
  double worst_loss = 0, worst_norm = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    worst_loss = std::max(worst_loss, std::abs(reports[i].loss / losses[i] - 1));
    worst_norm = std::max(worst_norm, std::abs(reports[i].gradient_norm / norms[i] - 1));
  }
  EXPECT_LT(worst_loss, 1e-4);
  EXPECT_LT(worst_norm, 1e-3);
  std::printf(
      "largest relative difference from PyTorch: loss %.1e, gradient norm %.1e; %.0f tokens/s\n",
      worst_loss, worst_norm, static_cast<double>(summary.tokens) / summary.seconds);
}

// bf16 products, fp32 everything else: the same curve within 2%.
TEST_F(Student, Bf16FollowsTheSameCurve) {
  const SoftTargets soft = soft_targets(embed(documents), embed(names));
  PathClassifier head(soft.class_vectors.view(), soft.common, soft.hub);
  ParameterArena parameters = arena(head);
  const auto loss = [&](const PackedIds& batch, DropoutSeed) {
    const at::Tensor logits = head.logits(vectors(batch, at::kBFloat16));
    return LossSum{
        soft_target_cross_entropy(logits, gather_rows(soft.targets.view(), batch.documents)),
        static_cast<double>(batch.documents.size())};
  };
  const TrainSummary summary = train(parameters, loss);
  const std::vector<double> losses = fixture["losses"];
  ASSERT_EQ(reports.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(reports[i].loss, losses[i], .02 * losses[i]) << "step " << i;
  std::printf("bf16: %.0f tokens/s\n", static_cast<double>(summary.tokens) / summary.seconds);
}

// The head of the published methods: hard labels (the best two classes, as if siblings were
// ignored), BCE summed.
TEST_F(Student, BilinearHeadLearnsOnTheSameEncoder) {
  const Matrix classes = embed(names);
  const SoftTargets soft = soft_targets(embed(documents), classes);
  MultiLabelTargets labels;
  for (std::int64_t d = 0; d < documents.size(); ++d) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(names.size()));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater<>(), [&](std::int32_t k) {
      return soft.targets.row(d)[static_cast<std::size_t>(k)];
    });
    labels.positives.append(std::span(order).first(2));
    labels.ignored.append(std::span(order).subspan(2, 1));
  }
  BilinearHead head(classes.view(), BilinearStart::identity, 1);
  ParameterArena parameters = arena(head, /*layers=*/1, /*encoder_rate=*/5e-5, /*head_rate=*/1e-2);
  const auto loss = [&](const PackedIds& batch, DropoutSeed) {
    const MultiLabelBatch rows = gather_labels(labels, names.size(), batch.documents);
    return LossSum{masked_binary_cross_entropy(head.logits(vectors(batch, at::kBFloat16)),
                                               rows.targets, rows.mask),
                   static_cast<double>(batch.documents.size())};
  };
  train(parameters, loss);
  EXPECT_LT(reports.back().loss, .7 * reports.front().loss);
}

}  // namespace
}  // namespace gpuhpc
