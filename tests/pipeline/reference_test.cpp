// The whole way from text to labels against the independent computation of
// data_tools/fixtures/make_reference.py: TELEClass `recommended`, its student of sharpened
// posteriors and `paper`, TaxoClass `fixed` and its classifier alone.
#include "pipeline.hpp"

namespace gpuhpc_test {
namespace {

const fs::path kFixtures = kSource / "tests/pipeline/fixtures";

class Reference : public Pipeline, public testing::WithParamInterface<const char*> {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("gpuhpc-reference-" + std::to_string(::getpid()));
    const auto everything = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    fs::create_directories(root_);
    for (const char* input : {"plain", "llm"})
      fs::copy(kFixtures / "input", root_ / input, everything);
    fs::copy(kFixtures / "llm", root_ / "llm", everything);
  }
  static void expect_answers(const Json& expected, const fs::path& file) {
    const auto found = predictions(file);
    ASSERT_EQ(found.size(), expected.size());
    for (const Json& wanted : expected) {
      const Json& row = found.at(wanted.at("id"));
      EXPECT_EQ(row.at("labels"), wanted.at("labels")) << file << " " << wanted.at("id");
      ASSERT_EQ(row.at("scores").size(), wanted.at("scores").size());
      for (const auto& [name, score] : wanted.at("scores").items())
        EXPECT_NEAR(row.at("scores").at(name), score.get<double>(), 1e-5)
            << file << " " << wanted.at("id") << " " << name;
    }
  }
};

TEST_P(Reference, RunAndPredictGiveItsLabelsAndScores) {
  const std::string name = GetParam();
  const Json expected = Json::parse(read(kFixtures / "expected.json")).at(name);
  const fs::path run = root_ / ("run-" + name), input = root_ / (name == "paper" ? "llm" : "plain"),
                 file = root_ / (name + ".jsonl");
  const std::string precision = " --infer.precision fp32 --device.kind cpu --device.threads 1 ",
                    options = expected.at("options");
  const Result result = gpuhpc("run --input.dir " + input.string() + " --run.dir " + run.string() +
                               " --model.encoder " + (kFixtures / "encoder").string() +
                               " --train.precision fp32" + precision + options);
  ASSERT_EQ(result.code, 0) << result.output;
  for (const Json& words : expected.value("says", Json::array()))
    EXPECT_THAT(result.output, HasSubstr(words.get<std::string>()));
  expect_answers(expected.at("predictions"), run / "predictions.jsonl");
  const Result predicted =
      gpuhpc("predict --model.dir " + (run / "model").string() + " --input.file " +
             (input / "test/corpus.txt").string() + " --output.file " + file.string() + precision);
  ASSERT_EQ(predicted.code, 0) << predicted.output;
  expect_answers(expected.at("predictions"), file);
}

INSTANTIATE_TEST_SUITE_P(Presets, Reference,
                         testing::Values("recommended", "sharpened", "paper", "fixed",
                                         "classifier"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace gpuhpc_test
