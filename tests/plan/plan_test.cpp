// Shapes against transformers' counts, memory against sums by hand, and what a plan chooses.
#include "gpuhpc/plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;

constexpr std::int64_t mib = 1 << 20;

struct Published {
  const char* name;
  std::int64_t parameters;
};

// sum(p.numel() for p in model.parameters()) of transformers' BertModel, RobertaModel, MPNetModel,
// DebertaV2Model and (M)T5ForConditionalGeneration with the published configs (flan and mT5: with
// the head of their own that their checkpoints have).
TEST(PlannedModels, HaveTransformersNumbersOfParameters) {
  constexpr Published table[] = {
      {"bert-base", 109'482'240},       {"bert-large", 335'141'888},    {"minilm-l6", 22'713'216},
      {"roberta-base", 124'645'632},    {"roberta-large", 355'359'744}, {"mpnet-base", 109'486'464},
      {"deberta-v3-base", 183'831'552}, {"t5-small", 60'506'624},       {"t5-base", 222'903'552},
      {"t5-large", 737'668'096},        {"flan-t5-base", 247'577'856},  {"mt5-small", 300'176'768},
      {"mt5-base", 582'401'280},        {"mt5-large", 1'229'581'312},
  };
  for (const Published& model : table)
    EXPECT_EQ(parameter_count(planned_model(model.name)), model.parameters) << model.name;
  // BertForMaskedLM and RobertaForMaskedLM
  EXPECT_EQ(parameter_count(planned_model("bert-base"), true), 109'514'298);
  EXPECT_EQ(parameter_count(planned_model("roberta-base"), true), 124'697'433);
}

TEST(PlannedModels, AreFoldersAndFilesToo) {
  const std::string fixtures = std::string(GPUHPC_SOURCE_DIR) + "/tests/nn/fixtures/";
  EXPECT_TRUE(planned_model(fixtures + "t5_gated").t5().gated);
  EXPECT_TRUE(planned_model(fixtures + "cross_deberta_v3/config.json").encoder().relative);
  try {
    planned_model("no-such-model");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("mt5-large"));
  }
}

PlannedWork on_gpu(PlanJob job, const std::string& precision) {
  PlannedWork work;
  work.job = job, work.precision = precision;
  return work;
}

TEST(Memory, OfWeightsGradientsAndMomentsIsSixteenBytesAParameter) {
  const PlannedModel model = planned_model("t5-base");
  PlannedWork work = on_gpu(PlanJob::seq2seq, "bf16");
  const double parameters = 222'903'552;
  const MemoryParts alone = training_memory(model, work, {3, 96, 24});
  EXPECT_NEAR(alone.weights / parameters, 4, 1e-4);
  EXPECT_NEAR(alone.gradients / parameters, 4, 1e-4);
  EXPECT_NEAR(alone.optimizer / parameters, 8, 1e-4);
  EXPECT_EQ(alone.communication, 0);

  work.ranks = 3, work.zero1 = true;
  const MemoryParts shared = training_memory(model, work, {3, 96, 24});
  EXPECT_NEAR(shared.optimizer / parameters, 8 / 3., 1e-4);
  EXPECT_NEAR(shared.communication / parameters, 4 / 3., 1e-4);  // its part of the sums
}

// What is not trained has no gradient: of MiniLM's 6 layers, the 2 on top. A layer is 4 H^2 + 8 H F
// + its vectors, 1,774,464 numbers.
TEST(Memory, OfFrozenLayersHasNoGradients) {
  PlannedWork work = on_gpu(PlanJob::classifier, "fp32");
  work.trained_layers = 2;
  PlannedModel model = planned_model("minilm-l6");
  model.pooler = false;
  const MemoryParts parts = training_memory(model, work, {5, 40});
  EXPECT_NEAR(parts.gradients, 4. * 2 * 1'774'464, 4096);
  EXPECT_NEAR(parts.weights, 4. * (22'713'216 - 384 * 384 - 384), 4096);
}

// GradientSync keeps the sums of quarters: of 4 and more micro-batches on one rank two, of the half
// that each of two ranks has one, on a GPU none.
TEST(Memory, OfReproducibleSumsIsUpToTwoMoreGradients) {
  PlannedWork work = on_gpu(PlanJob::seq2seq, "fp32");
  const PlannedModel model = planned_model("t5-small");
  const auto gradients = [&](bool cuda, int ranks, std::int64_t micro_batches) {
    work.cuda = cuda, work.ranks = ranks;
    PlannedBatch batch{2, 32, 8, micro_batches};
    const MemoryParts parts = training_memory(model, work, batch);
    return static_cast<double>(parts.gradients) / static_cast<double>(parts.weights);
  };
  EXPECT_EQ(gradients(false, 1, 1), 1);
  EXPECT_EQ(gradients(false, 1, 2), 2);
  EXPECT_EQ(gradients(false, 1, 7), 3);
  EXPECT_EQ(gradients(false, 2, 8), 2);
  EXPECT_EQ(gradients(false, 4, 8), 1);
  EXPECT_EQ(gradients(true, 1, 7), 1);
}

// By hand, bytes a token and layer of BERT in bf16 on a GPU without dropout: input 2H, queries,
// keys and values 6H, logarithms of attention's sums 4A, context 2H, two sums before norms 8H with
// 4 numbers of 4, what the feed-forward part reads 2H, its two activations 4F.
TEST(Memory, OfBertsActivationsIsWhatItsOperatorsKeep) {
  const PlannedModel model = planned_model("bert-base");
  const PlannedWork work = on_gpu(PlanJob::classifier, "bf16");
  const double h = 768, f = 3072, a = 12, layer = 20 * h + 4 * f + 4 * a + 16, around = 16 + 8 * h,
               tokens = 7 * 130;
  const MemoryParts parts = training_memory(model, work, {7, 130});
  EXPECT_NEAR(parts.activations, tokens * (12 * layer + around), .003 * parts.activations);
  // all products' weights, twice: 12 layers of 4 H^2 + 2 H F in 2 bytes
  EXPECT_NEAR(parts.copies, 12 * 2 * (4 * h * h + 2 * h * f), 4096.);
  PlannedWork again = work;
  again.checkpointing = true;
  const MemoryParts inputs = training_memory(model, again, {7, 130});
  EXPECT_NEAR(inputs.activations, tokens * (12 * 4 * h + around), .003 * inputs.activations);
  EXPECT_EQ(inputs.copies, 0);
}

// T5 adds a bias to its scores, so they stand in memory: a document's softmax, dropout's mask and
// the shares in bf16, 10 bytes for each of A L^2 pairs; bias-free attention to the source has none.
TEST(Memory, OfT5GrowsWithTheSquareOfTheLength) {
  const PlannedModel model = planned_model("t5-small");
  PlannedWork work = on_gpu(PlanJob::seq2seq, "bf16");
  work.dropout = work.attention_dropout = .1;
  const auto kept = [&](std::int64_t length) {
    return static_cast<double>(training_memory(model, work, {3, length, 10}).activations);
  };
  const double second = kept(600) - 2 * kept(400) + kept(200);
  EXPECT_NEAR(second, 6. * 3 * 8 * 10 * 2 * 200 * 200, .001 * second);
}

// Of 8 x 60 target tokens and 250,112 words in fp32: logarithms, and two gradients of that size.
TEST(Memory, OfALargeVocabularyIsItsLogits) {
  const MemoryParts parts =
      training_memory(planned_model("mt5-small"), on_gpu(PlanJob::seq2seq, "fp32"), {8, 100, 60});
  EXPECT_NEAR(parts.logits, 3. * 4 * 8 * 60 * 250'112, 1e-3 * parts.logits);
}

// 3 beams of 5 documents, 12 layers, 768 numbers for a key and as many for a value, fp32.
TEST(Memory, OfADecodersCacheIsItsKeysAndValues) {
  PlannedWork work = on_gpu(PlanJob::generate, "bf16");
  work.beams = 3;
  const MemoryParts parts = inference_memory(planned_model("t5-base"), work, {5, 200, 48});
  EXPECT_EQ(parts.cache, 12LL * 2 * 768 * 4 * (3 * 5 * 48 + 5 * 200));
  EXPECT_EQ(parts.gradients + parts.optimizer, 0);
}

TEST(LargestBatch, IsTheLastThatFits) {
  const auto bytes = [](std::int64_t documents) { return 10 + 7 * documents; };
  EXPECT_EQ(largest_batch(100, 31, bytes), 3);
  EXPECT_EQ(largest_batch(100, 30, bytes), 2);
  EXPECT_EQ(largest_batch(100, 16, bytes), 0);
  EXPECT_EQ(largest_batch(6, 1000, bytes), 6);
}

PlanRequest request(const char* model, const char* gpu, int ranks = 1) {
  PlanRequest r;
  r.model = planned_model(model);
  r.gpu = gpu_kind(gpu);
  r.work = on_gpu(r.model.is_t5() ? PlanJob::seq2seq : PlanJob::classifier, "bf16");
  r.work.ranks = ranks;
  r.work.dropout = r.work.attention_dropout = .1;
  r.length = 512;
  r.precisions = {r.gpu.bf16 > 0 ? "bf16" : "fp16", "fp32"};
  if (ranks > 1) r.zero1 = {false, true};
  return r;
}

TEST(Plans, StayBelowTheGpusMemoryAndDoAWholeGlobalBatch) {
  for (const char* gpu : {"v100-16", "rtx3080-10", "rtx4090-24", "h100-80"}) {
    PlanRequest r = request("t5-base", gpu, 2);
    r.global_batch = 23;
    const Plan plan = make_plan(r);
    ASSERT_TRUE(plan.fits()) << gpu;
    double before = 0;
    for (const Candidate& one : plan.candidates) {
      if (!one.fits()) continue;
      EXPECT_LE(one.bytes, r.gpu.usable());
      EXPECT_GE(one.micro_batch * one.accumulation * 2, r.global_batch);
      EXPECT_LE(one.micro_batch, one.largest);
      EXPECT_LE(before, one.step_seconds);  // best first
      before = one.step_seconds;
      PlannedBatch more{one.largest + 1, r.length, r.target_length, 2};
      if (one.largest < 12) {
        EXPECT_GT(training_memory(r.model, one.work, more).total(), r.gpu.usable());
      }
    }
  }
}

// mT5 of 1.2 billion parameters: 18.3 GiB of weights, gradients and moments alone.
TEST(Plans, SayWhatIsMissingWhereNothingFits) {
  const Plan plan = make_plan(request("mt5-large", "v100-16"));
  EXPECT_FALSE(plan.fits());
  ASSERT_FALSE(plan.advice.empty());
  EXPECT_THAT(plan.advice[0], HasSubstr("18.3 GiB of them"));
  EXPECT_THAT(plan.advice[1], HasSubstr("zero1 on"));
}

// What trials measured scales all that grows with the batch, and nothing else.
TEST(Plans, FollowACalibration) {
  MemoryParts parts;
  parts.weights = 700 * mib, parts.activations = 90 * mib, parts.logits = 10 * mib;
  EXPECT_EQ(calibrated(parts, {.memory = 1.3, .time = 1, .from = "trial"}), 830 * mib);
  const PlanRequest r = request("t5-base", "rtx4090-24");
  const auto doubled = [](const PlannedWork&) {
    return Calibration{.memory = 2, .time = 3, .from = "trial"};
  };
  const Candidate as_predicted = make_plan(r).candidates.front(),
                  as_measured = make_plan(r, doubled).candidates.front();
  EXPECT_LT(as_measured.largest, as_predicted.largest);
  EXPECT_GT(as_measured.step_seconds, 2.9 * as_predicted.step_seconds);
}

// Time: by hand, BERT-base's 24 H^2 (12 layers) + 4 H L a token forward, three times that in
// training; four times with layers computed again.
TEST(StepTimes, CountTheProducts) {
  const PlannedModel model = planned_model("bert-base");
  PlannedWork work = on_gpu(PlanJob::classifier, "bf16");
  const PlannedBatch batch{64, 128};
  const double h = 768, tokens = 64 * 128, forward = tokens * 12 * (24 * h * h + 4 * h * 128);
  EXPECT_NEAR(forward_flops(model, work, batch), forward, 1e-6 * forward);
  const GpuKind& gpu = gpu_kind("a100-40");
  const double seconds = 3 * forward / (312e12 * peak_share * tokens / (tokens + 512));
  EXPECT_NEAR(step_time(model, work, batch, gpu).products, seconds, 1e-6 * seconds);
  work.checkpointing = true;
  EXPECT_NEAR(step_time(model, work, batch, gpu).products, seconds * 4 / 3, 1e-6 * seconds);
}

TEST(Gpus, AreKnownByTheDriversNames) {
  const GpuKind kind = gpu_like("NVIDIA A100-SXM4-40GB", 39 * 1024 * mib);
  EXPECT_EQ(kind.tflops("bf16"), 312);
  EXPECT_EQ(kind.memory, 39 * 1024 * mib);
  EXPECT_EQ(gpu_kind("v100-16").tflops("bf16"), 0);
  EXPECT_THROW(gpu_like("Tesla K80", mib), Error);
  EXPECT_THROW(gpu_kind("a100"), Error);
}

}  // namespace
}  // namespace gpuhpc
