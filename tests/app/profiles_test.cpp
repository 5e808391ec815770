// The profiles of configs/ say what their guides say, whatever the presets under them become.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/app/options.hpp"
#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

struct Profile {
  explicit Profile(const std::string& file) {
    declare_options(set, options);
    std::vector<std::string> missing;  // its models
    set.parse(std::filesystem::path("configs") / file, {}, &missing);
    for (const auto& [name, value] : labelling_preset(options)) set.set_default(name, value);
  }
  std::string operator[](const std::string& name) const { return set.value(name); }
  config::OptionSet set;
  Options options;
};

// The two columns of the TaxoClass guide.
struct GuideRow {
  const char *option, *conservative, *a6000;
};
constexpr GuideRow kGuide[] = {
    {"pipeline.method", "taxoclass", "taxoclass"},
    {"taxoclass.similarity", "nli", "nli"},
    {"taxoclass.nli-model", "models/roberta-large-mnli", "models/deberta-large-mnli"},
    {"taxoclass.similarity-batch", "16", "64"},
    {"model.encoder", "models/bert-base-uncased", "models/bert-large-uncased"},
    {"model.pooling", "cls", "cls"},
    {"train.max-length", "256", "512"},
    {"infer.max-length", "256", "512"},
    {"train.layers", "-1", "-1"},
    {"train.dropout", "auto", "auto"},
    {"taxoclass.graph-hidden", "512", "1024"},
    {"taxoclass.graph-layers", "3", "4"},
    {"train.batch", "32", "64"},
    {"train.base-batch", "32", "64"},
    {"train.lr-rule", "linear", "linear"},
    {"train.epochs", "10", "15"},
    {"train.warmup", "500", "1000"},
    {"train.encoder-lr", "2e-05", "1e-05"},
    {"train.head-lr", "2e-05", "1e-05"},
    {"taxoclass.graph-lr", "2e-05", "1e-05"},
    {"taxoclass.self-training-encoder-lr", "1e-05", "5e-06"},
    {"taxoclass.self-training-head-lr", "1e-05", "5e-06"},
    {"infer.batch", "64", "128"},
    {"train.precision", "bf16", "bf16"},
    {"train.activation-checkpointing", "false", "false"},
    // What the guide does not say, or the published form collapses with.
    {"taxoclass.link", "sigmoid", "sigmoid"},
    {"taxoclass.labels-from", "classifier", "classifier"},
};

TEST(Profiles, TaxoclassHasTheValuesOfItsGuide) {
  const Profile conservative("taxoclass-conservative.ini"), a6000("taxoclass-a6000.ini");
  for (const GuideRow& row : kGuide) {
    EXPECT_EQ(conservative[row.option], row.conservative) << row.option;
    EXPECT_EQ(a6000[row.option], row.a6000) << row.option;
  }
  // No batch of evaluation is cut by its tokens.
  for (const Profile* profile : {&conservative, &a6000})
    EXPECT_GE(profile->options.shared.infer.token_budget,
              profile->options.shared.infer.batch * profile->options.shared.infer.max_length);
}

TEST(Profiles, MultiGpuTeleclassHasTheValuesOfItsGuide) {
  const Profile profile("teleclass-multi-gpu.ini");
  const std::pair<const char*, const char*> guide[] = {{"train.epochs", "3"},
                                                       {"train.precision", "fp16"},
                                                       {"train.batch-per-rank", "32"},
                                                       {"train.base-batch", "32"},
                                                       {"train.lr-rule", "linear"},
                                                       {"train.encoder-lr", "2e-05"},
                                                       {"train.seed", "42"},
                                                       {"teleclass.refinement", "multi-gpu"},
                                                       {"teleclass.positive-weight", "10"},
                                                       {"scoring.class-texts", "keywords"},
                                                       {"decode.mode", "threshold"},
                                                       {"decode.threshold", "0.5"}};
  for (const auto& [option, value] : guide) EXPECT_EQ(profile[option], value) << option;
}

// The two columns of the Sentence-BERT guide: a rank per GPU, and one process for all.
TEST(Profiles, SentenceEncodersHaveTheValuesOfTheirGuide) {
  const Profile ranks("sbert-8gpu.ini"), process("sbert-8gpu-dp.ini");
  const struct {
    const char *option, *ranks, *process;
  } guide[] = {{"parallel.strategy", "ddp", "dp"},
               {"train.batch-per-rank", "64", "32"},
               {"train.epochs", "5", "3"},
               {"train.encoder-lr", "2e-05", "1e-05"},
               {"train.base-batch", "32", "32"},
               {"train.lr-rule", "linear", "linear"},
               {"train.warmup", "0.1", "0.1"},
               {"train.precision", "fp16", "fp16"},
               {"train.max-length", "128", "128"},
               {"train.seed", "42", "42"},
               {"train.activation-checkpointing", "false", "false"},
               {"embedding.loss", "triplet", "triplet"},
               {"embedding.margin", "1", "1"},
               {"embedding.distance", "euclidean", "euclidean"},
               {"embedding.columns", "anchor,positive,negative", "anchor,positive,negative"},
               {"parallel.timeout", "3600", "3600"}};
  for (const auto& row : guide) {
    EXPECT_EQ(ranks[row.option], row.ranks) << row.option;
    EXPECT_EQ(process[row.option], row.process) << row.option;
  }
}

LabelOptions with_preset(const std::vector<std::string>& arguments) {
  config::OptionSet set;
  Options options;
  declare_options(set, options);
  set.parse({}, arguments);
  for (const auto& [name, value] : labelling_preset(options)) set.set_default(name, value);
  return options.label;
}

// 20 / L^(1/4) with L leaves expected: 1.5 where neither an option nor labelled documents say.
TEST(Presets, TheTemperatureFollowsTheExpectedLeaves) {
  const auto temperature = [](const std::vector<std::string>& arguments) {
    return with_preset(arguments).scoring.scores.temperature;
  };
  EXPECT_EQ(temperature({}), 18.07);
  EXPECT_EQ(temperature({"--decode.expected-leaves=1"}), 20);
  EXPECT_EQ(temperature({"--decode.expected-leaves=4"}), 14.14);
  const std::vector<std::string> fixed = {"--pipeline.method=taxoclass", "--pipeline.preset=fixed"},
                                 given = {"--decode.expected-leaves=4", "--scoring.temperature=9"},
                                 paper = {"--decode.expected-leaves=4", "--pipeline.preset=paper"};
  EXPECT_EQ(temperature(fixed), 18.07);
  EXPECT_EQ(temperature(given), 9);
  EXPECT_EQ(temperature(paper), 20);
}

TEST(Presets, CoreClassesAreLearntWhereTextsHaveSeveralLeaves) {
  const auto targets = [](const std::vector<std::string>& arguments) {
    return with_preset(arguments).teleclass.targets.kind;
  };
  EXPECT_EQ(targets({}), "sharpened");
  EXPECT_EQ(targets({"--decode.expected-leaves=1.9"}), "sharpened");
  EXPECT_EQ(targets({"--decode.expected-leaves=2"}), "cores");
  const std::vector<std::string> given = {"--decode.expected-leaves=3",
                                          "--teleclass.targets=posterior"},
                                 paper = {"--decode.expected-leaves=3", "--pipeline.preset=paper"};
  EXPECT_EQ(targets(given), "posterior");
  EXPECT_EQ(targets(paper), "sharpened");
}

TEST(Profiles, MemoryStepsAreThoseOfTheGuideInItsOrder) {
  const Profile a6000("taxoclass-a6000.ini");
  EXPECT_EQ(memory_steps(a6000["train.on-out-of-memory"]),
            (std::vector<std::vector<std::string>>{
                {"--train.batch=48"},
                {"--train.activation-checkpointing=true"},
                {"--train.max-length=384"},
                {"--taxoclass.graph-hidden=768", "--taxoclass.graph-layers=3"}}));
  EXPECT_TRUE(memory_steps("").empty());
  EXPECT_TRUE(memory_steps(" ; ").empty());
  for (const char* wrong : {"train.batch", "train.bach=48", "train.batch=many", "train.batch = 48"})
    EXPECT_THROW(memory_steps(wrong), Error) << wrong;
}

}  // namespace
}  // namespace gpuhpc
