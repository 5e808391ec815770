// Predicted memory beside what updates on this machine's processor take, and the files of a plan.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "gpuhpc/app/plan_files.hpp"
#include "gpuhpc/app/plan_trial.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/kernels/isa.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

class PlanTrials : public testing::Test {
 protected:
  void SetUp() override { limit_host_memory(0); }

  static PlannedWork work(PlanJob job, double dropout) {
    PlannedWork w;
    w.job = job, w.cuda = false;
    const kernels::Isa isa = kernels::best_isa();
    w.cpu_fp32 = isa >= kernels::Isa::avx2, w.cpu_bf16 = isa >= kernels::Isa::avx512_bf16;
    w.dropout = w.attention_dropout = dropout;
    return w;
  }
  // Predicted over measured.
  static double ratio(const PlannedModel& model, const PlannedWork& w, const PlannedBatch& batch) {
    Options options;
    const auto comm = make_single_communicator();
    const TrialResult result = run_trial(model, w, batch, options, {.threads = 2}, *comm);
    const double predicted = static_cast<double>(training_memory(model, w, batch).total());
    return predicted / static_cast<double>(result.peak);
  }
};

// Small models with batches large enough that blocks of a megabyte and more decide.
PlannedModel small_t5() {
  T5Config c;
  c.vocabulary_size = 5000, c.hidden_size = 128, c.head_size = 32, c.heads = 6;
  c.intermediate_size = 320, c.layers = 3, c.decoder_layers = 2;
  c.gated = true, c.activation = Activation::gelu_tanh, c.tied_head = c.scaled_head = false;
  return {"small T5", c};
}
PlannedModel small_encoder(bool deberta) {
  PlannedModel model = planned_model(deberta ? "deberta-v3-base" : "bert-base", 6000);
  auto& c = std::get<EncoderConfig>(model.config);
  c.hidden_size = 160, c.heads = 5, c.intermediate_size = 608, c.layers = 3;
  model.pooler = false;
  return model;
}

TEST_F(PlanTrials, OfT5StayNearThePrediction) {
  EXPECT_NEAR(ratio(small_t5(), work(PlanJob::seq2seq, .1), {9, 150, 40}), 1, .06);
}
TEST_F(PlanTrials, OfMaskedLanguageModelsStayNearThePrediction) {
  EXPECT_NEAR(ratio(small_encoder(false), work(PlanJob::pretrain, .1), {11, 140}), 1, .06);
}
// Two gradients of the word table are the most here, after all that the layers kept is free.
TEST_F(PlanTrials, OfFewDocumentsAndManyWordsStayNearThePrediction) {
  const PlannedModel model = planned_model("small", 30000);
  EXPECT_NEAR(ratio(model, work(PlanJob::pretrain, .1), {2, 128, 0, 3}), 1, .02);
}
TEST_F(PlanTrials, OfTheProcessorsOwnLayersStayNearThePrediction) {
  PlannedWork w = work(PlanJob::classifier, 0);
  EXPECT_NEAR(ratio(small_encoder(false), w, {24, 120}), 1, .06);
  w.checkpointing = true;
  EXPECT_NEAR(ratio(small_encoder(false), w, {24, 120}), 1, .06);
}
TEST_F(PlanTrials, OfDebertaStayNearThePrediction) {
  PlannedWork w = work(PlanJob::embedding, .1);
  w.columns = 2;
  EXPECT_NEAR(ratio(small_encoder(true), w, {6, 110}), 1, .06);
}

// Held-out items: no graph, and no gradient of the logits, which are most of it here.
TEST_F(PlanTrials, OfHeldOutPairsStayNearThePrediction) {
  const PlannedModel model = small_t5();
  PlannedWork w = work(PlanJob::seq2seq, .1);
  for (const std::int64_t documents : {9, 30}) {
    T5 t5(model.t5());
    const PlannedBatch batch{documents, 150, 40};
    const auto packed = [&](std::int64_t length) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(documents * length)), offsets{0};
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 5000);
      for (std::int64_t b = 0; b < documents; ++b)
        offsets.push_back(static_cast<std::int32_t>((b + 1) * length));
      return pack_tokens(ids, offsets, at::kCPU);
    };
    const PackedTokens source = packed(150), targets = packed(40);
    const at::NoGradGuard no_grad;
    reset_host_memory_peak();
    const std::int64_t before = host_memory().used;
    t5.loss(source, targets, 0);
    const auto measured = static_cast<double>(host_memory().peak - before);
    const MemoryParts parts = evaluation_memory(model, w, batch);
    EXPECT_NEAR(static_cast<double>(parts.moving()) / measured, 1, .1)
        << documents << " documents: activations " << parts.activations << ", copies "
        << parts.copies << ", logits " << parts.logits << ", workspace " << parts.workspace
        << ", measured " << measured;
    EXPECT_EQ(parts.kept(), training_memory(model, w, batch).kept());
  }
}

PlanRequest request() {
  PlanRequest r;
  r.model = planned_model("t5-base");
  r.gpu = gpu_kind("rtx4090-24");
  r.work.job = PlanJob::seq2seq;
  r.work.ranks = 2;
  r.global_batch = 40, r.length = 320, r.target_length = 48;
  r.precisions = {"bf16"}, r.checkpointing = {true}, r.zero1 = {true};
  return r;
}

// The program reads the file, and finds what was planned in it.
TEST(PlanConfig, IsAConfigFileOfTheProgram) {
  Options options, again;
  config::OptionSet set, read;
  declare_options(set, options), declare_options(read, again);
  set.parse({}, {"--plan.model=t5-base", "--seq2seq.prefix=briefly: ", "--train.epochs=3"});
  const PlanRequest r = request();
  const Plan plan = make_plan(r);
  ASSERT_TRUE(plan.fits());
  const fs::path file = fs::temp_directory_path() / ("plan_" + std::to_string(getpid()) + ".ini");
  write_text_file(file, plan_config(r, plan, set, options.plan));
  std::vector<std::string> missing;
  read.parse(file, {}, &missing);
  fs::remove(file);
  const TrainOptions& train = again.shared.training.train;
  EXPECT_EQ(train.batch, 40);
  EXPECT_EQ(train.micro_batch, plan.candidates[0].micro_batch);
  EXPECT_EQ(train.eval_batch, std::min<std::int64_t>(plan.evaluation, 64));
  EXPECT_EQ(memory_steps(train.on_out_of_memory),  // that the program takes
            (std::vector<std::vector<std::string>>{{"--seq2seq.source-length=160"}}));
  EXPECT_EQ(train.precision, "bf16");
  EXPECT_EQ(train.epochs, 3);
  EXPECT_TRUE(train.activation_checkpointing);
  EXPECT_EQ(again.shared.training.parallel.strategy, "zero1");
  EXPECT_EQ(again.seq2seq.model.model, "base");
  EXPECT_EQ(again.seq2seq.learning.source_length, 320);
  EXPECT_EQ(again.seq2seq.learning.target_length, 48);
  EXPECT_EQ(again.seq2seq.files.prefix, "briefly: ");
  EXPECT_EQ(again.shared.infer.batch, plan.inference);
}

TEST(PlanConfig, KeepsWhatTheUserGivesUpAndMeasuresAtOnce) {
  Options options;
  config::OptionSet set;
  declare_options(set, options);
  set.parse({}, {"--train.on-out-of-memory=train.batch=8", "--train.eval-batch=3"});
  const PlanRequest r = request();
  const std::string text = plan_config(r, make_plan(r), set, options.plan);
  EXPECT_THAT(text, testing::HasSubstr("\non-out-of-memory = train.batch=8\n"));
  EXPECT_THAT(text, testing::HasSubstr("\neval-batch = 3\n"));
}

// infer.batch is of a thread of a processor: two of them share what fits.
TEST(PlanConfig, DividesWhatIsWrittenAtOnceAmongThreads) {
  Options options;
  config::OptionSet set;
  declare_options(set, options);
  set.parse({}, {});
  PlanRequest r = request();
  r.work.job = PlanJob::generate, r.work.ranks = 1, r.work.cuda = false, r.work.threads = 2;
  r.work.cpu_fp32 = r.work.cpu_bf16 = true;
  const Plan plan = make_plan(r);
  ASSERT_GT(plan.inference, 3);
  EXPECT_THAT(plan_config(r, plan, set, options.plan),
              testing::HasSubstr("\nbatch = " + std::to_string(plan.inference / 2) + "\n"));
}

// A published model is no folder that a job could start from: the file says so.
TEST(PlanConfig, NamesTheOptionOfAModelThatIsNotHere) {
  Options options;
  config::OptionSet set;
  declare_options(set, options);
  set.parse({}, {"--plan.model=flan-t5-base"});
  const PlanRequest r = request();
  const std::string text = plan_config(r, make_plan(r), set, options.plan);
  EXPECT_THAT(text, testing::HasSubstr("give its own with --seq2seq.model"));
  EXPECT_THAT(text, testing::HasSubstr("\nmodel = small\n"));
}

// A third more than foreseen beside the weights: fewer texts fit, and take so much longer. Scores
// of a group of sequences are as many whatever the number of texts.
TEST(Calibrations, OfInferenceChangeWhatFits) {
  PlanRequest r = request();
  r.work.job = PlanJob::generate, r.work.ranks = 1;
  const Plan foreseen = make_plan(r);
  const Plan measured = make_plan(r, [](const PlannedWork&) {
    return Calibration{.memory = 4 / 3., .time = 3, .from = "trial"};
  });
  EXPECT_NEAR(static_cast<double>(measured.inference) / static_cast<double>(foreseen.inference),
              .75, .02);
  EXPECT_LE(measured.candidates.front().bytes, measured.limit);
  EXPECT_GT(measured.inference_seconds, 2 * foreseen.inference_seconds);
}

TEST(Calibrations, AreFoundByTheWayOfComputing) {
  const PlanRequest r = request();
  const PlannedBatch batch{4, 320, 48};
  PlannedWork computed = r.work;
  computed.precision = "bf16";
  const MemoryParts parts = training_memory(r.model, computed, batch);
  CalibrationFile file, read;
  // a quarter more than predicted, beside what stands; twice the time
  file.add(r, computed, batch, parts, .7, parts.kept() + parts.moving() * 5 / 4, 1.4);
  const fs::path path = fs::temp_directory_path() / ("trials_" + std::to_string(getpid()));
  file.write(path);
  read.read(path);
  const Calibration found = read.find(r, computed);
  EXPECT_NEAR(found.memory, 1.25, 1e-6);
  EXPECT_NEAR(found.time, 2, 1e-9);
  computed.checkpointing = true;
  EXPECT_TRUE(read.find(r, computed).from.empty());
  write_text_file(path, "{\"trials\": [{\"memory\": \"much\"}]}");
  EXPECT_THROW(CalibrationFile().read(path), Error);
  fs::remove(path);
}

}  // namespace
}  // namespace gpuhpc
