// `gpuhpc plan`: the tables of the guide, and what encode and generate hold.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

TEST_F(Pipeline, PlansStandInTheGuideAsTheProgramMakesThem) {
  const Result tables = shell("GPUHPC=" GPUHPC_BINARY " bash " +
                              (kSource / "scripts/plan_tables.sh").string() + " --check");
  EXPECT_EQ(tables.code, 0) << tables.output;
  // Encoding on a GPU without bf16.
  const std::string encode =
      "plan --device.kind cpu --plan.gpu v100-16 --plan.job encode --plan.model bert-base";
  const fs::path file = root_ / "plan.json";
  EXPECT_EQ(gpuhpc(encode + " --plan.json " + file.string()).code, 0);
  EXPECT_EQ(Json::parse(read(file)).at("candidates").at(0).at("precision"), "fp16");
  const Result refused = gpuhpc(encode + " --infer.precision bf16");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--infer.precision bf16: v100-16 has no such products; "
                                        "give fp16"));
}

// Each in a process of its own: its pages are what is measured, kernels' buffers and packed weights
// among them. Foreseen within a tenth.
TEST_F(Pipeline, PlansOfInferenceForeseeWhatTheProcessHolds) {
  const fs::path file = root_ / "inference.json";
  for (const std::string job :
       {"generate --plan.model t5-small --plan.length 100 --plan.target-length 6 --infer.batch 24",
        "encode --plan.model minilm-l6 --plan.length 128"}) {
    fs::remove(file);
    const std::string words =
        "plan --device.kind cpu --device.threads 2 --plan.gpu cpu --infer.precision fp32 "
        "--plan.job " +
        job + " --plan.calibration " + file.string();
    const Result result = gpuhpc(words + " --plan.calibrate true");
    ASSERT_EQ(result.code, 0) << result.output;
    const Json trial = Json::parse(read(file)).at("trials").at(0);
    EXPECT_NEAR(trial.at("predicted").get<double>() / trial.at("measured").get<double>(), 1, .1)
        << job << result.output;
    EXPECT_GT(trial.at("seconds").get<double>(), 0);
    EXPECT_THAT(gpuhpc(words).output, HasSubstr("as measured"));
  }
  const Result refused = gpuhpc(
      "plan --device.kind cpu --plan.gpu cpu --plan.job predict --plan.model minilm-l6 "
      "--plan.calibrate true");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("give --plan.job encode"));
}

}  // namespace
}  // namespace gpuhpc_test
