#include "pipeline.hpp"

#include <iomanip>
#include <regex>
#include <set>

namespace gpuhpc_test {
namespace {

TEST_F(Pipeline, LeavesPredictionsMetricsModelAndReport) {
  const fs::path run = root_ / "reference";
  for (const char* file :
       {"config.ini", "ledger.json", "log/rank-00000.log", "submission.csv", "predictions.jsonl",
        "metrics.json", "metrics.jsonl", "ranks.jsonl", "report.html", "report.json",
        "model/model.safetensors", "model/config.json", "model/vocab.txt", "model/modules.json"})
    EXPECT_GT(fs::file_size(run / file), 0u) << file;
  const Json figures = metrics(run);
  for (const char* name : {"example_f1", "micro_f1", "macro_f1", "precision_at_1", "precision_at_3",
                           "mrr_filtered", "mrr_raw", "hierarchical_f1", "top5_accuracy"}) {
    ASSERT_TRUE(figures.at(name).is_number()) << name;
    EXPECT_LE(figures.at(std::string(name) + "_low").get<double>(),
              figures.at(std::string(name) + "_high").get<double>());
  }
  EXPECT_EQ(predictions(run / "predictions.jsonl").size(), 100u);
}

TEST_F(Pipeline, LabelsWholeTextsAsWellAsMeasured) {
  const fs::path run = root_ / "whole";
  ASSERT_EQ(gpuhpc(arguments(run) + kAsUsed).code, 0);
  const Json figures = metrics(run);
  // A little below what 300 documents give: .600, .558, .391, .415. Class names alone give .620,
  // .522, .381 and .401 here.
  EXPECT_GT(figures.at("precision_at_1").get<double>(), .58);
  EXPECT_GT(figures.at("precision_at_3").get<double>(), .54);
  EXPECT_GT(figures.at("example_f1").get<double>(), .385);
  EXPECT_GT(figures.at("mrr_filtered").get<double>(), .405);
}

TEST_F(Pipeline, RanksAgree) {
  for (const int ranks : {2, 4}) {
    const fs::path run = root_ / ("ranks" + std::to_string(ranks));
    ASSERT_EQ(gpuhpc(arguments(run), ranks).code, 0);
    for (std::size_t stage = 0; stage < 4; ++stage)
      expect_same_files(root_ / "reference/stages" / kStages[stage],
                        run / "stages" / kStages[stage]);
    for (const char* file : {"model/model.safetensors", "predictions.jsonl"})
      EXPECT_TRUE(read(run / file) == read(root_ / "reference" / file)) << run << " " << file;
  }
}

// The training phase of a run on two ranks: one line per rank that adds up, a trace of each, an
// event file.
TEST_F(Pipeline, ATrainingPhaseOnRanksTellsWhereItsTimeWent) {
  const fs::path run = copied("watched"), stage = run / "stages/05-training";
  ASSERT_EQ(gpuhpc(arguments(run) +
                       " --pipeline.to training --pipeline.force training --profile.steps 2-3",
                   2)
                .code,
            0);
  std::ifstream ranks(stage / "ranks.jsonl");
  int rank = 0;
  for (std::string line; std::getline(ranks, line); ++rank) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json.at("rank"), rank);
    EXPECT_EQ(json.at("steps"), 10);
    double parts = 0;
    for (const char* part : {"data_seconds", "compute_seconds", "exposed_communication_seconds",
                             "update_seconds", "other_seconds"})
      parts += json.at(part).get<double>();
    EXPECT_NEAR(parts, json.at("wall_seconds").get<double>(), .02 * parts);
    const Json trace =
        Json::parse(read(run / ("trace/training/rank-0000" + std::to_string(rank) + ".json")));
    std::set<int> steps;
    for (const Json& event : trace.at("traceEvents"))
      if (event.at("ph") == "X") steps.insert(event.at("args").at("step").get<int>());
    EXPECT_EQ(steps, (std::set<int>{2, 3}));
  }
  EXPECT_EQ(rank, 2);
  std::uintmax_t events = 0;
  for (const auto& entry : fs::directory_iterator(run / "events/training"))
    events = std::max(events, entry.file_size());
  EXPECT_GT(events, 2000u);
  EXPECT_EQ(gpuhpc(arguments(run) + " --profile.steps 3-2").code, 2);
}

// Batches of 60 documents in micro-batches of 15 are whole quarters on 1, 2 and 4 replicas.
TEST_F(Pipeline, ReplicasOfOneProcessGiveTheBytesOfOneAlsoAfterAStop) {
  const std::string batches = " --train.batch 60 --train.micro-batch 15 --train.epochs 2",
                    replicas = " --parallel.strategy dp --parallel.replicas ";
  const fs::path alone = copied("alone");
  ASSERT_EQ(gpuhpc(arguments(alone) + batches).code, 0);
  const auto expect_same_bytes = [&](const fs::path& run) {
    for (const char* file : {"model/model.safetensors", "model/gpuhpc/student_paths.h5",
                             "predictions.jsonl", "submission.csv"})
      EXPECT_TRUE(read(run / file) == read(alone / file)) << run << " " << file;
  };
  for (const std::string number : {"2", "4"}) {
    const fs::path run = root_ / ("replicas" + number);  // the whole run, on ranks that are threads
    const Result result = gpuhpc(arguments(run) + batches + replicas + number);
    ASSERT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr(number + " ranks, cpu, 1 thread"));
    EXPECT_TRUE(
        fs::exists(run / ("log/rank-0000" + std::to_string(std::stoi(number) - 1) + ".log")));
    expect_same_stages(alone, run);
    EXPECT_THAT(result.output, HasSubstr(number + " ranks x micro-batch 15"));
    expect_same_bytes(run);
    EXPECT_EQ(training_losses(run).size(), 10u);  // of one rank
  }
  const fs::path run = copied("replicas-stopped");
  const auto has_learnt = [&] {  // at least one step
    std::error_code none;
    for (fs::recursive_directory_iterator file(run / "checkpoints", none), end;
         !none && file != end; file.increment(none))
      if (file->path().filename() == "metrics.jsonl" && fs::file_size(file->path(), none) > 0 &&
          !none)
        return true;
    return false;
  };
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c",
          ("exec " + std::string(GPUHPC_BINARY) + " " + arguments(run) + batches + replicas +
           "2 >/dev/null 2>&1")
              .c_str(),
          nullptr);
    _exit(127);
  }
  int status = 0;
  while (!has_learnt() && waitpid(child, &status, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(child, SIGUSR1);
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  ASSERT_EQ(gpuhpc(arguments(run) + batches).code, 0);  // one rank goes on
  expect_same_bytes(run);
}

TEST_F(Pipeline, FinishedStagesAreSkippedAndChangedOnesRerunWithWhatFollows) {
  const fs::path run = copied("skip");
  const Result again = gpuhpc(arguments(run));
  EXPECT_EQ(again.code, 0);
  for (int stage = 1; stage <= 7; ++stage)
    EXPECT_THAT(again.output, testing::ContainsRegex("stage " + std::to_string(stage) +
                                                     "/7 [a-z-]*: finished before"));
  const Result changed = gpuhpc(arguments(run) + " --teleclass.targets posterior");
  EXPECT_EQ(changed.code, 0);
  for (int stage = 1; stage <= 7; ++stage) {
    const auto skipped =
        testing::ContainsRegex("stage " + std::to_string(stage) + "/7 [a-z-]*: finished before");
    if (stage <= 3)
      EXPECT_THAT(changed.output, skipped);
    else
      EXPECT_THAT(changed.output, testing::Not(skipped));
  }
}

TEST_F(Pipeline, KilledInEveryStageItContinuesToTheSameFiles) {
  expect_same_after_kills(arguments(root_ / "killed"), root_ / "killed", kStages);
}

TEST_F(Pipeline, PublishedPresetsLearnAndLeaveTheirFormats) {
  // The epochs, and filtered MRR a little below what they give on 300 documents: .153, .139, .239.
  const std::map<std::string, std::pair<std::string, double>> presets = {
      {"paper", {"4", .12}}, {"code", {"4", .12}}, {"multi-gpu", {"1", .20}}};
  for (const auto& [preset, least] : presets) {
    const auto& [epochs, ranking] = least;
    const fs::path run = copied("preset-" + preset);  // whose vectors may be used again
    const std::string words = " --pipeline.preset " + preset + " --train.epochs " + epochs +
                              " --teleclass.augment-documents 1";
    ASSERT_EQ(gpuhpc(arguments(run) + words).code, 0) << preset;
    const fs::path refinement = run / "stages/02-refinement";
    EXPECT_EQ(Json::parse(read(refinement / "init_core_classes.json")).size(), 300u);
    EXPECT_EQ(Json::parse(read(refinement / "refined_core_classes.json")).size(), 300u);
    EXPECT_FALSE(
        Json::parse(read(run / "stages/03-augmentation/generated_doc2label.json")).empty());
    EXPECT_EQ(fs::file_size(refinement / "enrichment.txt") > 0, preset != "multi-gpu");
    const auto losses = training_losses(run);
    ASSERT_GT(losses.size(), 4u);
    EXPECT_LT(losses.back(), .8 * losses.front()) << preset;
    EXPECT_GT(metrics(run).at("mrr_filtered").get<double>(), ranking) << preset;
    if (preset != "multi-gpu") continue;
    const std::string again =
        " --pipeline.to training --pipeline.force training --parallel.strategy dp "
        "--parallel.replicas 2";
    ASSERT_EQ(gpuhpc(arguments(run) + words + again).code, 0);
    EXPECT_THAT(training_losses(run / "stages/05-training"),
                testing::Pointwise(testing::DoubleNear(1e-4), losses));
  }
}

// Of the last run of its training phase: one value per epoch.
std::vector<double> validation_losses(const fs::path& run) {
  std::vector<double> losses;
  std::ifstream lines(run / "stages/05-training/metrics.jsonl");
  for (std::string line; std::getline(lines, line);)
    if (const Json json = Json::parse(line); json.contains("validation_loss"))
      losses.push_back(json.at("validation_loss"));
  return losses;
}

// With rates of 0 nothing is learnt: dropout is all that could make a difference.
TEST_F(Pipeline, ValidationDropsNothing) {
  const fs::path run = copied("undropped");
  std::vector<double> losses;
  for (const std::string dropout : {"0", ".3"}) {
    ASSERT_EQ(gpuhpc(arguments(run) +
                     " --pipeline.to training --train.validation .1 --train.encoder-lr 0 "
                     "--train.head-lr 0 --train.dropout " +
                     dropout)
                  .code,
              0);
    ASSERT_EQ(validation_losses(run).size(), 1u);
    losses.push_back(validation_losses(run)[0]);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
}

// The student, then the bilinear model. A rate of 1 x 30/12 and a weight decay of 1 turn the head's
// weights into -1.5 times themselves at every step, whatever is learnt: the first epoch is the
// best.
TEST_F(Pipeline, TheModelGetsTheWeightsOfTheBestEpoch) {
  for (const std::string preset : {"recommended", "multi-gpu"}) {
    const fs::path run = copied("best-" + preset);
    const std::string words =
        arguments(run) + " --pipeline.preset " + preset +
        " --teleclass.augment-documents 1 --train.max-length 24 --infer.max-length 24 "
        "--train.validation .1 "
        "--train.batch 30 --train.lr-rule linear --train.base-batch 12 --train.head-lr 1 "
        "--train.weight-decay 1 --train.warmup 0 --train.decay constant --train.epochs ";
    ASSERT_EQ(gpuhpc(words + "3 --train.restore best").code, 0);
    EXPECT_THAT(read(run / "report.html"), HasSubstr("validation"));
    const std::vector<double> losses = validation_losses(run);
    ASSERT_EQ(losses.size(), 3u);
    ASSERT_LT(losses[0], losses[1]);
    ASSERT_LT(losses[0], losses[2]);
    ASSERT_EQ(gpuhpc(words + "1 --pipeline.to training").code, 0);
    for (const char* file : {"model.safetensors", "gpuhpc/student_paths.h5"})
      EXPECT_TRUE(read(run / "model" / file) ==  // the first one's
                  read(run / "stages/05-training/model" / file));
  }
}

// How a run cut texts and chose labels travels with its model, wherever that goes.
TEST_F(Pipeline, PredictOnTheTestTextsEqualsTheRun) {
  const fs::path run = copied("decoded"), model = root_ / "elsewhere", out = root_ / "again.jsonl";
  const std::string predict = "predict --device.kind cpu --device.threads 1 --model.dir " +
                              model.string() + " --input.file " +
                              (root_ / "input/test/corpus.txt").string() + " --output.file " +
                              out.string();
  std::set<std::vector<Json>> different;  // labels of all documents
  for (const std::string options :
       {"", " --decode.mode chain", " --decode.mode top-k --decode.k 2",
        " --decode.mode threshold --decode.threshold .2 --infer.max-length 24"}) {
    ASSERT_EQ(gpuhpc(arguments(run) + options).code, 0) << options;
    fs::remove_all(model);
    fs::copy(run / "model", model, fs::copy_options::recursive);
    ASSERT_EQ(gpuhpc(predict).code, 0) << options;
    EXPECT_EQ(largest_difference(run / "predictions.jsonl", out), 0) << options;
    const auto first = predictions(run / "predictions.jsonl"), second = predictions(out);
    std::vector<Json> labels;
    for (const auto& [id, row] : first) {
      EXPECT_EQ(row.at("labels"), second.at(id).at("labels")) << id << options;
      labels.push_back(row.at("labels"));
    }
    different.insert(labels);
  }
  EXPECT_EQ(different.size(), 4u);
  const Result given = gpuhpc(predict + " --decode.mode top-k --decode.review-below .6");
  EXPECT_THAT(given.output,
              HasSubstr("--decode.mode top-k is taken; the model's run had threshold"));
  int marked = 0;
  double wrong = 0;
  for (const auto& [id, row] : predictions(out)) {
    EXPECT_EQ(row.at("labels").size(), 3u) << id;
    double best = 0;
    for (const auto& [name, score] : row.at("scores").items())
      best = std::max(best, score.get<double>());
    EXPECT_EQ(row.at("review").get<bool>(), best < .6) << id;
    if (best < .6)
      ++marked;
    else
      wrong += 1 - best;
  }
  ASSERT_LT(marked, 100);
  std::ostringstream share;
  share << std::fixed << std::setprecision(1) << 100 * wrong / (100 - marked);
  EXPECT_THAT(given.output,
              HasSubstr(std::to_string(marked) + " documents are marked for review. Of the best " +
                        "classes of the other " + std::to_string(100 - marked) +
                        ", their scores predict that " + share.str() + "% are wrong."));
  // Nothing of a model can be exchanged.
  fs::remove(model / "gpuhpc/posterior.h5");
  fs::copy_file(model / "gpuhpc/student_posterior.h5", model / "gpuhpc/posterior.h5");
  const Result damaged = gpuhpc(predict);
  EXPECT_EQ(damaged.code, 65);
  EXPECT_THAT(damaged.output, HasSubstr("posterior.h5: this is not the file that"));
}

TEST_F(Pipeline, OneDocumentFromStandardInput) {
  const Result result = shell(
      "echo '{\"id\": \"a\", \"text\": \"a fast multiplayer first person shooter game\"}' | " +
      std::string(GPUHPC_BINARY) + " predict --device.kind cpu --model.dir " +
      (root_ / "reference/model").string() + " 2>/dev/null");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, HasSubstr("\"id\": \"a\""));
  EXPECT_THAT(result.output, HasSubstr("\"review\":"));
}

TEST_F(Pipeline, EvaluateGivesTheSameFiguresFromTheCsvAndNoRanking) {
  fs::create_directories(root_ / "csv");
  fs::copy_file(root_ / "reference/submission.csv", root_ / "csv/submission.csv");
  ASSERT_EQ(
      gpuhpc("evaluate --input.dir " + (root_ / "input").string() +
             " --eval.bootstrap-samples 50 --eval.predictions " +
             (root_ / "csv/submission.csv").string() + " --run.dir " + (root_ / "csv").string())
          .code,
      0);
  EXPECT_EQ(metrics(root_ / "csv").at("example_f1"), metrics(root_ / "reference").at("example_f1"));
  EXPECT_TRUE(metrics(root_ / "csv").at("mrr_filtered").is_null());
}

TEST_F(Pipeline, ASecondRunInTheSameFolderIsRefused) {
  const fs::path run = root_ / "locked";
  const Result result =
      shell("sh -c '" + std::string(GPUHPC_BINARY) + " " + arguments(run) +
            " & first=$!; while [ ! -e " + (run / "stages").string() + " ]; do sleep 0.01; done; " +
            GPUHPC_BINARY + " " + arguments(run) + "; code=$?; kill -9 $first; exit $code'");
  EXPECT_EQ(result.code, 78);
  EXPECT_THAT(result.output, HasSubstr("another gpuhpc is running in"));
}

TEST_F(Pipeline, DocumentedOptionsAreTheProgramsOwn) {
  EXPECT_EQ(shell(std::string(GPUHPC_BINARY) + " --markdown").output,
            read(kSource / "docs/options.md"))
      << "write it anew: gpuhpc --markdown > docs/options.md";
  const std::string help = gpuhpc("--help all").output, readme = read(kSource / "README.md");
  static const std::regex option(R"(--([a-z]+\.[a-z0-9-]+))");
  int options = 0;
  for (std::sregex_iterator i(readme.begin(), readme.end(), option), end; i != end; ++i, ++options)
    EXPECT_THAT(help, HasSubstr((*i)[0].str() + " "));
  EXPECT_GT(options, 5);
}

TEST_F(Pipeline, ProfilesAreRead) {
  const auto dry_run = [](const std::string& words) {
    return shell("cd " + kSource.string() + " && " + GPUHPC_BINARY + " run --dry-run " + words);
  };
  int scripts = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "jobs/slurm")) {
    std::smatch profile;
    const std::string text = read(entry.path());
    if (!std::regex_search(text, profile, std::regex(R"(launch (configs/[a-z0-9-]+\.ini))")))
      continue;
    ++scripts;
    const Result result = dry_run("--config " + profile[1].str());
    EXPECT_EQ(result.code, 0) << entry.path() << result.output;
  }
  EXPECT_EQ(scripts, 4);
  // A profile may be looked at where neither its GPU nor its models are.
  for (const std::string name : {"cpu", "a6000", "conservative"}) {
    const Result taxoclass = dry_run("--config configs/taxoclass-" + name + ".ini");
    EXPECT_EQ(taxoclass.code, 0) << taxoclass.output;
    EXPECT_THAT(taxoclass.output, HasSubstr("method = taxoclass"));
    if (name == "a6000") {
      EXPECT_THAT(taxoclass.output, HasSubstr("`models/deberta-large-mnli`, which does not exist"));
    }
  }
  const Result cpu = dry_run("--config configs/cpu.ini");
  EXPECT_EQ(cpu.code, 0);
  EXPECT_THAT(cpu.output, HasSubstr("kind = cpu"));
}

struct BadInput {
  std::string name, file, content;
  int code;
  std::string says;
};
class BadInputs : public Pipeline, public testing::WithParamInterface<BadInput> {};

TEST_P(BadInputs, EndOnAllRanksWithOneSentenceAndTheRightCode) {
  const BadInput& bad = GetParam();
  for (const int ranks : {1, 2}) {
    const fs::path input = root_ / ("bad-" + bad.name), run = root_ / ("bad-run-" + bad.name);
    fs::remove_all(input);
    fs::copy(root_ / "input", input, fs::copy_options::recursive);
    std::ofstream(input / bad.file, std::ios::binary) << bad.content;
    const Result result = gpuhpc(arguments(run, input), ranks);
    EXPECT_EQ(result.code, bad.code) << result.output;
    EXPECT_THAT(result.output, HasSubstr((input / bad.file).string()));
    EXPECT_THAT(result.output, HasSubstr(bad.says));
    EXPECT_FALSE(fs::exists(run / "ledger.json"))
        << "bad input is found before anything is computed";
    fs::remove_all(run);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadInputs,
    testing::Values(BadInput{"cycle", "label_hierarchy.txt", "0\t1\n1\t2\n2\t0\n", 65, "cycle"},
                    BadInput{"unknown", "label_hierarchy.txt", "0\t1\n0\t9999\n", 65, ":2:"},
                    BadInput{"duplicate", "labels.txt", "0\ta\n0\tb\n", 65, ":2:"},
                    BadInput{"no-tab", "train/corpus.txt", "0\tfine\nno tab here\n", 65, ":2:"},
                    BadInput{"empty", "train/corpus.txt", "", 65, "empty"},
                    BadInput{"not-utf8", "train/corpus.txt", "0\tfine\n1\t\xff\xfe\n", 65, ":2:"},
                    BadInput{"test-twice", "test/corpus.txt", "0\ta\n1\tb\n0\tc\n", 65, ":3:"},
                    BadInput{"test-no-tab", "test/corpus.txt", "0\tfine\nno tab here\n", 65, ":2:"},
                    BadInput{"description", "label_descriptions.txt", "9999\tno such class\n", 65,
                             ":1:"},
                    BadInput{"gold", "test/doc2labels.txt", "0\t1,99999\n", 65, ":1:"}),
    [](const auto& i) {
      std::string name = i.param.name;
      std::erase(name, '-');
      return name;
    });

TEST_F(Pipeline, ContradictingOptionsEndBeforeTheFirstStage) {
  const fs::path run = root_ / "contradicting";
  const std::pair<const char*, int> cases[] = {
      {"--decode.minimum 9 --decode.maximum 3", 78},
      {"--pipeline.method taxoclass --decode.minimum 9 --decode.maximum 3", 78},
      {"--output.submission-header one", 2},
      {"--pipeline.method taxoclass --taxoclass.link sigmoid-exp", 2},
      {"--pipeline.method taxoclass --taxoclass.similarity pair --taxoclass.hypothesis x", 2},
      {"--pipeline.method taxoclass --taxoclass.similarity nli", 2},
      {"--teleclass.augmentation generated", 65},
      {"--train.batch 8 --train.batch-per-rank 4", 2},
      {"--pipeline.to labelling", 2}};
  for (const auto& [options, code] : cases) {
    const Result result = gpuhpc(arguments(run) + " " + options);
    EXPECT_EQ(result.code, code) << options << "\n" << result.output;
    EXPECT_FALSE(fs::exists(run)) << options;
  }
}

TEST_F(Pipeline, BadLaunchesEndWithTheirExitCode) {
  EXPECT_EQ(gpuhpc("run --train.epoch 3").code, 2);
  EXPECT_THAT(gpuhpc("run --train.epoch 3", 2).output, HasSubstr("did you mean `train.epochs`"));
  EXPECT_EQ(gpuhpc("walk").code, 2);
  const Result replicas =
      gpuhpc(arguments(root_ / "replicas-on-ranks") + " --parallel.strategy dp", 2);
  EXPECT_EQ(replicas.code, 2);
  EXPECT_THAT(replicas.output, HasSubstr("start one without mpirun"));
  const Result blind = gpuhpc(arguments(root_ / "blind") + " --train.restore best", 2);
  EXPECT_EQ(blind.code, 78);
  EXPECT_THAT(blind.output, HasSubstr("--train.validation"));
  EXPECT_FALSE(fs::exists(root_ / "blind"));
  EXPECT_EQ(gpuhpc(arguments("/proc/nowhere")).code, 74);
  const fs::path folder = root_ / "cut-model";
  fs::copy(kMiniLm, folder, fs::copy_options::recursive);
  fs::resize_file(folder / "model.safetensors", 1000000);
  const Result cut = gpuhpc(arguments(root_ / "cut") + " --model.encoder " + folder.string(), 2);
  EXPECT_EQ(cut.code, 65);
  EXPECT_THAT(cut.output, HasSubstr("model.safetensors"));
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 8})";
  const Result type = gpuhpc(arguments(root_ / "type") + " --model.encoder " + folder.string());
  EXPECT_EQ(type.code, 65);
  EXPECT_THAT(type.output, HasSubstr("llama"));
}

}  // namespace
}  // namespace gpuhpc_test
