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
// DebertaV2Model, ModernBertModel and (M)T5ForConditionalGeneration with the published configs
// (flan and mT5: with the head of their own that their checkpoints have).
TEST(PlannedModels, HaveTransformersNumbersOfParameters) {
  constexpr Published table[] = {
      {"bert-base", 109'482'240},        {"bert-large", 335'141'888},
      {"minilm-l6", 22'713'216},         {"roberta-base", 124'645'632},
      {"roberta-large", 355'359'744},    {"mpnet-base", 109'486'464},
      {"deberta-v3-base", 183'831'552},  {"modernbert-base", 149'014'272},
      {"modernbert-large", 394'781'696}, {"t5-small", 60'506'624},
      {"t5-base", 222'903'552},          {"t5-large", 737'668'096},
      {"flan-t5-base", 247'577'856},     {"mt5-small", 300'176'768},
      {"mt5-base", 582'401'280},         {"mt5-large", 1'229'581'312},
  };
  for (const Published& model : table)
    EXPECT_EQ(parameter_count(planned_model(model.name)), model.parameters) << model.name;
  // BertForMaskedLM and RobertaForMaskedLM
  EXPECT_EQ(parameter_count(planned_model("bert-base"), true), 109'514'298);
  EXPECT_EQ(parameter_count(planned_model("roberta-base"), true), 124'697'433);
  // ModernBertForMaskedLM
  EXPECT_EQ(parameter_count(planned_model("modernbert-base"), true), 149'655'232);
}

TEST(PlannedModels, AreFoldersAndFilesToo) {
  const std::string fixtures = "tests/nn/fixtures/";
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

// Scores of 600 pairs with the positives of all, three times in fp32. In parts of 100 the second
// pass keeps the gradients of all vectors; the first has all scores and no layer's activations, so
// that of 30,000 pairs these are the highest moment: scores, vectors, what is made of those and the
// gradients.
TEST(Memory, OfABatchsScoresGrowsWithItsSquare) {
  const PlannedModel model = planned_model("minilm-l6");
  PlannedWork work = on_gpu(PlanJob::embedding, "fp32");
  work.columns = 2;
  const PlannedBatch whole{600, 20}, parts{100, 20, 0, 6}, huge{100, 20, 0, 300};
  const MemoryParts alone = training_memory(model, work, whole),
                    alone_in_parts = training_memory(model, work, parts);
  work.over_batch = true;
  constexpr double rounded = 1 << 13;  // an allocator's blocks
  EXPECT_NEAR(training_memory(model, work, whole).logits - alone.logits, 3 * 600 * 600 * 4,
              rounded);
  const MemoryParts in_parts = training_memory(model, work, parts);
  EXPECT_EQ(in_parts.logits, 0);
  EXPECT_NEAR(in_parts.activations - alone_in_parts.activations, 500 * 2 * 384 * 4, rounded);
  // with the graph of one micro-batch
  const double layers =
      static_cast<double>(alone_in_parts.activations + alone_in_parts.copies) - 100 * 2 * 384 * 4;
  EXPECT_NEAR(training_memory(model, work, huge).moving(),
              layers + 3. * 30000 * 30000 * 4 + 4. * 30000 * 2 * 384 * 4, rounded);
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

// By hand, bytes a token and layer of ModernBERT in bf16 on a GPU: input 4H, behind its norm 2H,
// queries, keys and values 6H, the first two turned 4H, attention's sums 4A, context 2H, its sum
// 4H, behind its norm 2H, activation, gate and what the second product reads 8F, two norms'
// moments.
TEST(Memory, OfModernBertsActivationsIsWhatItsOperatorsKeep) {
  const PlannedModel model = planned_model("modernbert-base");
  const PlannedWork work = on_gpu(PlanJob::classifier, "bf16");
  const double h = 768, f = 1152, a = 12, layer = 24 * h + 8 * f + 4 * a + 16, around = 16 + 12 * h,
               tokens = 7 * 1030;
  const MemoryParts parts = training_memory(model, work, {7, 1030});
  EXPECT_NEAR(parts.activations, tokens * (22 * layer + around), .003 * parts.activations);
  EXPECT_NEAR(parts.copies, 22 * 2 * (4 * h * h + 3 * h * f), 4096.);
  // Scores of local layers grow with the length, those of global ones are never stored.
  const auto kept = [&](std::int64_t length) {
    return static_cast<double>(
        training_memory(model, on_gpu(PlanJob::classifier, "fp32"), {3, length}).activations);
  };
  EXPECT_NEAR(kept(4096) / kept(2048), 2, .01);
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

// On a processor by hand, T5-small in bf16, 2 threads of 3 texts each with 3 beams: weights in
// fp32, then packed ones; keys and values of a token in 6 layers, in bf16: of the sources in blocks
// of at most 384 tokens that end on 32, of texts in pages of 32 tokens.
TEST(Memory, OfGenerationOnProcessorsIsPackedWeightsAndPages) {
  PlannedWork work = on_gpu(PlanJob::generate, "bf16");
  work.cuda = false, work.cpu_fp32 = work.cpu_bf16 = true, work.beams = 3, work.threads = 2;
  const MemoryParts parts = inference_memory(planned_model("t5-small"), work, {6, 150, 40});
  // 72 matrices of attention of 1 MiB on pages of 2, 24 of 4 MiB, 62.75 MiB of words on 64; norms
  // and tables of distances as they are.
  EXPECT_EQ(parts.weights, (72 * 2 + 24 * 4 + 64) * mib + 4 * (32 * 512 + 2 * 32 * 8));
  const std::int64_t h = 512, f = 2048, layer = 4 * h * h + 2 * h * f;
  EXPECT_EQ(parts.copies, 2 * (6 * layer + 6 * (layer + 4 * h * h) + 32'128 * h));
  EXPECT_EQ(parts.cache, 2 * (6 * 2 * 512 * 2) * ((320 + 160) + 3 * 2 * 32 * 3));
  EXPECT_EQ(parts.logits, 2 * 32 * 32'128 * 4);
  work.threads = 1;
  EXPECT_LT(inference_memory(planned_model("t5-small"), work, {6, 150, 40}).activations,
            parts.activations);
}

// What encoders keep on a processor does not grow with the texts: threads take 384 tokens at a
// time.
TEST(Memory, OfEncodingOnProcessorsIsPackedWeightsAndBuffers) {
  PlannedWork work = on_gpu(PlanJob::encode, "fp32");
  work.cuda = false, work.cpu_fp32 = true, work.threads = 2;
  const PlannedModel model = planned_model("minilm-l6");
  const MemoryParts few = inference_memory(model, work, {64, 128}),
                    many = inference_memory(model, work, {640, 128});
  const std::int64_t h = 384, tables = (30'522 + 512 + 2) * h;
  EXPECT_EQ(few.copies, 4 * (tables + 6 * (4 * h * h + 8 * h * h)));
  EXPECT_EQ(few.activations, many.activations);
  EXPECT_EQ(many.total() - few.total(), 576 * h * 4);
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
    for (const PlanCandidate& one : plan.candidates) {
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

// Of a batch in one piece there is one gradient, of four pieces there are three.
TEST(Plans, TakeAllAtOnceWhereSumsOfPiecesNeedMore) {
  PlanRequest r = request("t5-small", "a100-40");
  r.work = PlannedWork{.job = PlanJob::seq2seq, .cuda = false};
  r.precisions = {"fp32"}, r.checkpointing = {true};
  r.global_batch = 16, r.length = 256, r.target_length = 64;
  PlannedWork again = r.work;
  again.precision = "fp32", again.checkpointing = true;
  const auto bytes = [&](std::int64_t documents) {
    return training_memory(r.model, again, {documents, 256, 64, 16 / documents}).total();
  };
  for (const std::int64_t size : {1, 2, 4, 8}) ASSERT_LT(bytes(16), bytes(size));
  r.memory = bytes(16);  // too little for powers of two below it
  const Plan plan = make_plan(r);
  ASSERT_TRUE(plan.fits());
  EXPECT_EQ(plan.candidates.front().micro_batch, 16);
  r.micro_batch = 1;
  EXPECT_FALSE(make_plan(r).fits());
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
  const PlanCandidate as_predicted = make_plan(r).candidates.front(),
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

GpuKind two_threads() {
  GpuKind cpu;
  cpu.name = "cpu", cpu.fp32 = .4, cpu.bf16 = 1.6, cpu.bandwidth = 20;
  return cpu;
}

// bench/results/2026-11-24-plan-limits.md: MiniLM on two threads, 17.87 documents/s one at a time,
// 24.93 with four, 26.81 with sixteen, 20.57 with sixteen and layers computed again. What fits 98%
// of 584 MiB is one document, or four with layers computed again, which are faster.
TEST(StepTimes, OfAProcessorKnowThatOneDocumentAtATimeIsSlow) {
  PlanRequest r = request("minilm-l6", "a100-40");
  r.gpu = two_threads(), r.precisions = {"fp32"};
  r.work = PlannedWork{.job = PlanJob::classifier, .cuda = false, .cpu_fp32 = true};
  r.model.pooler = false, r.length = 128, r.global_batch = 32;
  const auto speed = [&](std::int64_t documents, bool again) {
    PlannedWork work = r.work;
    work.checkpointing = again;
    return 32 / step_time(r.model, work, {documents, 128, 0, 32 / documents}, r.gpu).seconds();
  };
  EXPECT_NEAR(speed(1, false) / speed(16, false), 17.87 / 26.81, .05);
  EXPECT_NEAR(speed(4, false) / speed(16, false), 24.93 / 26.81, .05);
  EXPECT_NEAR(speed(16, true) / speed(16, false), 20.57 / 26.81, .05);
  r.memory = 584 * mib / 100 * 98;
  const PlanCandidate best = make_plan(r).candidates.front();
  ASSERT_TRUE(best.fits());
  EXPECT_TRUE(best.work.checkpointing);
  EXPECT_EQ(best.micro_batch, 4);
}

// A forward pass: a third of the training's products; 6 layers of 30 kernels, 6 us each, where
// those take longer.
TEST(InferenceTimes, OfEncodersAreAForwardPass) {
  PlannedWork work = on_gpu(PlanJob::encode, "bf16");
  const PlannedModel bert = planned_model("bert-base");
  const GpuKind& gpu = gpu_kind("a100-40");
  const double third = step_time(bert, work, {64, 128}, gpu).products / 3;
  EXPECT_NEAR(inference_time(bert, work, {64, 128}, gpu), third, 1e-6 * third);
  EXPECT_NEAR(inference_time(planned_model("minilm-l6"), work, {1, 8}, gpu), 6 * 30 * 6e-6, 1e-9);
}

// By hand, T5-small (6 + 6 layers, H 512, A D 512, F 2048, V 32128) writing 40 tokens for each of B
// texts of 200 with 3 beams, products in bf16, keys and values in fp32.
TEST(InferenceTimes, OfGenerationAreOnePassAndAStepForEachToken) {
  const PlannedModel model = planned_model("t5-small");
  PlannedWork work = on_gpu(PlanJob::generate, "bf16");
  work.beams = 3;
  const double h = 512, f = 2048, v = 32128, layers = 6, l = 200, m = 40,
               weights = layers * (6 * h * h + 2 * h * f) + v * h;
  const GpuKind& gpu = gpu_kind("a100-40");
  const double peak = 312e12 * peak_share;
  const auto encoder = [&](double b) {
    const double tokens = b * l,
                 products = tokens * layers * (2 * (4 * h * h + 2 * h * f) + 4 * h * l + 4 * h * h);
    return products * (tokens + 512) / (peak * tokens);
  };
  const auto time = [&](std::int64_t b, const GpuKind& on) {
    return inference_time(model, work, {b, 200, 40}, on);
  };
  // The launches of 6 layers, twice 30 kernels each, decide over a step of few texts; the memory
  // over one of many; the products where memory is fast.
  EXPECT_NEAR(time(40, gpu) / (encoder(40) + m * 2 * layers * 30 * 6e-6), 1, 1e-6);
  const double bytes = 2 * weights + 4 * layers * 2 * h * 900 * (3 * m / 2 + l);
  EXPECT_NEAR(time(900, gpu) / (encoder(900) + m * bytes / 1555e9), 1, 1e-6);
  GpuKind fast = gpu;
  fast.bandwidth = 1e6;
  const double products = 3 * 3000 * (2 * weights + layers * 4 * h * (m / 2 + l));
  EXPECT_NEAR(time(3000, fast) / (encoder(3000) + m * products / peak), 1, 1e-6);
}

TEST(Plans, SayHowLongInferenceTakes) {
  PlanRequest r = request("t5-base", "rtx4090-24");
  const Plan training = make_plan(r);
  EXPECT_EQ(training.inference_seconds,
            inference_time(r.model, training.candidates.front().work,
                           {training.inference, r.length, r.target_length}, r.gpu));
  r.work.job = PlanJob::generate, r.precisions = {"bf16"};
  const Plan plan = make_plan(r);
  const PlanCandidate& only = plan.candidates.front();
  EXPECT_EQ(only.step_seconds, plan.inference_seconds);
  EXPECT_NEAR(only.tokens_per_second * only.step_seconds, plan.inference * r.target_length, 1e-6);
}

// Halving and accumulating come first, by themselves; then shorter texts, then half precision.
TEST(Plans, GiveUpInTheGuidesOrder) {
  using testing::ElementsAre;
  PlanRequest r = request("t5-base", "v100-16");
  PlanCandidate whole, half;
  whole.work.precision = "fp32", half.work.precision = "fp16", half.work.checkpointing = true;
  EXPECT_THAT(out_of_memory_steps(r, whole),
              ElementsAre("train.activation-checkpointing=true", "seq2seq.source-length=256",
                          "train.precision=fp16"));
  EXPECT_THAT(out_of_memory_steps(r, half), ElementsAre("seq2seq.source-length=256"));
  r = request("bert-base", "a100-40"), r.length = 31;
  EXPECT_THAT(out_of_memory_steps(r, whole),
              ElementsAre("train.activation-checkpointing=true", "train.precision=bf16"));
  r.length = 32;
  EXPECT_THAT(out_of_memory_steps(r, half), ElementsAre("train.max-length=16"));
  EXPECT_THAT(make_plan(r).advice.at(0),
              testing::AllOf(HasSubstr("half the micro-batch"), HasSubstr("train.max-length=16")));
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
