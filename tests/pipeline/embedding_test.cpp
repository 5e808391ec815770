// train-embedding on short and long descriptions of the demo's packages.
#include "pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace gpuhpc_test {
namespace {

class Embedding : public Pipeline {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("gpuhpc-embedding-" + std::to_string(::getpid()));
    fs::create_directories(root_);
    write_pairs("train", 96);
    write_pairs("test", 40);
  }
  // "short. long" -> {"anchor": short, "positive": long}. Of texts that begin alike the first: rows
  // of one text, cut to 24 tokens, would never be in one batch.
  static void write_pairs(const std::string& part, int count, std::string name = {}) {
    if (name.empty()) name = part;
    const fs::path corpus = kSource / "data/debtags-topical" / part / "corpus.txt.gz";
    shell("gzip -dc " + corpus.string() + " > " + (root_ / part).string());
    std::ifstream lines(root_ / part);
    std::ofstream pairs(root_ / (name + ".jsonl"));
    std::set<std::string> anchors, positives;
    for (std::string line; count > 0 && std::getline(lines, line);) {
      const std::size_t tab = line.find('\t'), stop = line.find(". ");
      if (stop == line.npos || !anchors.insert(line.substr(tab + 1, stop - tab - 1)).second ||
          !positives.insert(line.substr(stop + 2, 30)).second)
        continue;
      pairs << Json{{"anchor", line.substr(tab + 1, stop - tab - 1)},
                    {"positive", line.substr(stop + 2)},
                    {"score", count % 7 * .15},
                    {"class", std::vector{"no", "yes", "perhaps"}[count % 3]},
                    {"together", count % 5 == 0 ? 0 : 1}}
            << "\n";
      --count;
    }
  }
  static std::string arguments(const fs::path& run) {
    return "train-embedding --embedding.train " + (root_ / "train.jsonl").string() +
           " --embedding.test " + (root_ / "test.jsonl").string() + " --run.dir " + run.string() +
           common() + " --embedding.matryoshka 100";
  }
  static std::string common() {
    return " --model.encoder " + std::string(GPUHPC_MODELS) +
           "/all-MiniLM-L6-v2 --device.kind cpu --device.threads 1 --train.precision fp32 "
           "--infer.precision fp32 --train.layers 1 --train.max-length 24 --train.batch 30 "
           "--train.dropout 0";
  }
};

TEST_F(Embedding, IsTheSameForEveryMicroBatchAndNumberOfRanks) {
  const fs::path whole = root_ / "whole", cut = root_ / "cut";
  ASSERT_EQ(gpuhpc(arguments(whole)).code, 0);
  ASSERT_EQ(gpuhpc(arguments(cut) + " --train.micro-batch 7", 2).code, 0);
  const std::vector<double> losses = training_losses(whole), others = training_losses(cut);
  ASSERT_EQ(losses.size(), 4u);
  ASSERT_EQ(others.size(), 4u);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], others[i], 1e-4);
  const std::string card = read(whole / "model/README.md");
  EXPECT_THAT(card, HasSubstr("| learn | train.jsonl | 96 | anchor,positive |"));
  EXPECT_THAT(card, HasSubstr("| trained | 100 |"));
  const Json figures = metrics(whole), same = metrics(cut);
  EXPECT_EQ(figures.at("queries"), 40);
  EXPECT_NE(figures.at("start").at("384"), figures.at("trained").at("384"));
  EXPECT_NE(figures.at("trained").at("100"), figures.at("trained").at("384"));
  EXPECT_EQ(figures.at("start"), same.at("start"));
  for (const auto& [name, value] : figures.at("trained").at("384").items())
    EXPECT_NEAR(value.get<double>(), same.at("trained").at("384").at(name).get<double>(), .03)
        << name;
  // The report has them as a table, a row for each encoder and width.
  const Json shown = Json::parse(read(whole / "report.json")).at("samples");
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown, Json::parse(read(whole / "samples.json")));
  const Json columns = shown[0].at("columns"), rows = shown[0].at("rows");
  ASSERT_EQ(rows.size(), 4u);
  ASSERT_EQ(columns.size(), 2u + figures.at("start").at("384").size());
  for (const Json& row : rows)
    for (std::size_t i = 2; i < columns.size(); ++i)
      EXPECT_EQ(row.at(i), figures.at(row.at(0).get<std::string>())
                               .at(std::to_string(row.at(1).get<int>()))
                               .at(columns.at(i).get<std::string>()));
  const Result encoded =
      gpuhpc("encode --device.kind cpu --model.dir " + (whole / "model").string() +
             " --input.text-field anchor " + "--input.file " + (root_ / "test.jsonl").string() +
             " --output.file " + (root_ / "vectors.jsonl").string());
  ASSERT_EQ(encoded.code, 0) << encoded.output;
  std::ifstream vectors(root_ / "vectors.jsonl");
  std::string first;
  std::getline(vectors, first);
  EXPECT_EQ(Json::parse(first).at("embedding").size(), 384u);
  // The folder is one thing, card and all: another one's file is refused.
  fs::copy(whole / "model", root_ / "damaged", fs::copy_options::recursive);
  std::ofstream(root_ / "damaged/1_Pooling/config.json", std::ios::app) << " ";
  const Result damaged =
      gpuhpc("mine --device.kind cpu --model.encoder " + (root_ / "damaged").string() +
             " --embedding.train " + (root_ / "train.jsonl").string());
  EXPECT_EQ(damaged.code, 65) << damaged.output;
  EXPECT_THAT(damaged.output, HasSubstr("1_Pooling/config.json: this is not the file that"));
}

TEST_F(Embedding, HoldsItsWeightsOnceWhileItTrains) {
  const fs::path run = root_ / "once";
  ASSERT_EQ(gpuhpc(arguments(run) + " --train.layers -1 --embedding.train-limit 30").code, 0);
  const Json step = Json::parse(read(run / "metrics.jsonl"));  // of the only one
  // Weights, gradients and two moments; the folder's tensors beside them would be a fifth.
  const double weights = 4. * 22713216;
  EXPECT_GT(step.at("host_memory").get<double>(), 4 * weights);
  EXPECT_LT(step.at("host_memory").get<double>(), 4.5 * weights);
}

// Duplicates among all texts: anchors and their positives are one set. The encoder as it was gives
// the same on two ranks.
TEST_F(Embedding, FindsParaphrasesAmongAllTexts) {
  const fs::path one = root_ / "paraphrases", two = root_ / "paraphrases-2";
  const std::string more =
      " --embedding.evaluator paraphrases --embedding.transitive true --train.max-steps 2"
      " --train.validate-every 1 --train.validation .2 --embedding.metric average_precision";
  const Result found = gpuhpc(arguments(one) + more);
  ASSERT_EQ(found.code, 0) << found.output;
  EXPECT_THAT(found.output, HasSubstr("memory of a rank's tensors: about "));
  ASSERT_EQ(gpuhpc(arguments(two) + more, 2).code, 0);
  const Json figures = metrics(one), same = metrics(two);
  EXPECT_EQ(figures.at("texts"), 80);
  EXPECT_EQ(figures.at("start"), same.at("start"));
  EXPECT_EQ(figures.at("start").at("384").size(), 5u);
  EXPECT_GT(figures.at("start").at("384").at("average_precision"), .2);
  bool drawn = false;
  const Json report = Json::parse(read(one / "report.json"));
  for (const Json& curve : report.at("curves"))
    drawn |= curve.at("title") == "validation average_precision";
  EXPECT_TRUE(drawn);
  const Result scores =
      gpuhpc(arguments(root_ / "refused") + more + " --embedding.test-score score");
  EXPECT_EQ(scores.code, 2) << scores.output;
  EXPECT_THAT(scores.output, HasSubstr("not 1 or 0, which say nothing of duplicates"));
}

TEST_F(Embedding, LearnsScoresAndMeasuresHowCosinesFollowThem) {
  const fs::path run = root_ / "scored";
  ASSERT_EQ(gpuhpc(arguments(run) + " --embedding.loss cosent").code, 0);
  const Json figures = metrics(run);
  EXPECT_EQ(figures.at("rows"), 40);
  EXPECT_NE(figures.at("start").at("384").at("spearman_cosine"),
            figures.at("trained").at("384").at("spearman_cosine"));
  EXPECT_EQ(figures.at("trained").at("384").size(), 2u);
  const Result words =
      gpuhpc(arguments(root_ / "refused") + " --embedding.loss cosine --embedding.score anchor");
  EXPECT_EQ(words.code, 65) << words.output;
  EXPECT_THAT(words.output, HasSubstr("in column `anchor` is not a number"));
}

// A batch comes from one of the data sets and has its loss; micro-batches and ranks change nothing.
TEST_F(Embedding, SeveralDataSetsAreMixedEachWithItsLoss) {
  const fs::path config = root_ / "mixed.ini", one = root_ / "mixed", two = root_ / "mixed-2";
  std::ofstream(root_ / "scored.csv") << [] {
    std::string rows = "left,right,near\n";
    for (int i = 0; i < 33; ++i)
      rows += "word " + std::to_string(i) + ",text of " + std::to_string(i * 3 % 7) + ",0." +
              std::to_string(i % 10) + "\n";
    return rows + "no score,for this,\n";
  }();
  std::ofstream(config) << "[dataset.pairs]\ntrain = " << (root_ / "train.jsonl").string()
                        << "\nvalidation = " << (root_ / "test.jsonl").string()
                        << "\n[dataset.scored]\ntrain = " << (root_ / "scored.csv").string()
                        << "\nvalidation = " << (root_ / "scored.csv").string()
                        << "\ncolumns = left,right\nscore = near\nloss = cosent\nweight = 2\n";
  const std::string command = "train-embedding --config " + config.string() +
                              " --embedding.bad-rows skip" + common() + " --run.dir ";
  const Result whole = gpuhpc(command + one.string());
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_THAT(whole.output, HasSubstr("scored.csv: 1 bad rows are left out, 33 stay."));
  ASSERT_EQ(gpuhpc(command + two.string() + " --train.micro-batch 7", 2).code, 0);
  std::vector<std::string> sets;
  std::ifstream lines(one / "metrics.jsonl");
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = Json::parse(line);
    if (last.contains("dataset")) sets.push_back(last.at("dataset"));
  }
  EXPECT_THAT(sets, testing::UnorderedElementsAre("pairs", "pairs", "pairs", "pairs", "scored",
                                                  "scored", "scored", "scored"));
  EXPECT_NEAR(last.at("validation_loss"),
              (last.at("validation_loss_pairs").get<double>() +
               last.at("validation_loss_scored").get<double>()) /
                  2,
              1e-9);
  const std::vector<double> losses = training_losses(one), others = training_losses(two);
  ASSERT_EQ(losses.size(), 8u);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], others[i], 1e-4);
  const Json files = metrics(one).at("files");
  EXPECT_EQ(files.at("train.pairs").at("left_out"), 0);
  EXPECT_EQ(files.at("train.scored").at("left_out"), 1);
  EXPECT_THAT(read(one / "model/README.md"),
              HasSubstr("| learn scored | scored.csv | 33 | left,right |"));
  const std::string heads = " --dataset.pairs.loss softmax --dataset.scored.loss softmax";
  const Result refused = gpuhpc(command + (root_ / "refused").string() + heads);
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("one data set alone can learn classes"));
}

TEST_F(Embedding, AFigureOfTheEvaluationTellsTheBestValidation) {
  const fs::path run = root_ / "best";
  ASSERT_EQ(gpuhpc("train-embedding --embedding.train " + (root_ / "train.jsonl").string() +
                   " --embedding.validation " + (root_ / "test.jsonl").string() + " --run.dir " +
                   run.string() + common() +
                   " --train.epochs 2 --embedding.metric ndcg_at_10 --train.restore best")
                .code,
            0);
  double best = 0;
  std::ifstream lines(run / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);)
    best = std::max(best, Json::parse(line).value("validation_ndcg_at_10", 0.));
  // No test file: the evaluation measures the same rows, with the weights that were the best.
  EXPECT_NEAR(metrics(run).at("trained").at("384").at("ndcg_at_10").get<double>(), best, 1e-3);
  const Result unknown =
      gpuhpc(arguments(root_ / "refused") + " --embedding.metric spearman_cosine");
  EXPECT_EQ(unknown.code, 2) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("has: loss, mrr_at_10, ndcg_at_10"));
}

TEST_F(Embedding, ClassesAreLearntByAHeadAndPairsOfTheTestFileToldApart) {
  const std::string classes =
      " --embedding.loss softmax --embedding.score class --train.validation .2 "
      "--embedding.metric label_accuracy --embedding.test-score together --train.head-lr .01";
  const fs::path one = root_ / "classes", two = root_ / "classes-2";
  const auto without_matryoshka = [](std::string words) {
    return words.replace(words.find(" --embedding.matryoshka 100"), 27, "");
  };
  ASSERT_EQ(gpuhpc(without_matryoshka(arguments(one)) + classes).code, 0);
  ASSERT_EQ(gpuhpc(without_matryoshka(arguments(two)) + classes + " --train.micro-batch 7", 2).code,
            0);
  const std::vector<double> losses = training_losses(one), others = training_losses(two);
  ASSERT_EQ(losses.size(), 3u);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], others[i], 1e-4);
  EXPECT_NEAR(losses[0], std::log(3.), .2);  // three classes
  EXPECT_TRUE(metrics(one).at("trained").at("384").contains("cosine_ap"));
}

TEST_F(Embedding, BadRowsAreFatalOrLeftOutCountedAndNamed) {
  const fs::path file = root_ / "holes.csv", run = root_ / "holes";
  std::ofstream rows(file);
  rows << "anchor,positive,score\n";
  for (int i = 0; i < 40; ++i) rows << "word " << i << ",text of " << i << ',' << .02 * i << "\n";
  rows << "too few,fields\n ,an empty text,.1\nfar,out,1.2\nno,score,\n";
  rows.close();
  const std::string command = "train-embedding --embedding.train " + file.string() +
                              " --embedding.loss cosine --run.dir " + run.string() + common();
  const Result fatal = gpuhpc(command);
  EXPECT_EQ(fatal.code, 65) << fatal.output;
  EXPECT_THAT(fatal.output, HasSubstr("holes.csv:42: 2 fields where the first line names 3"));
  EXPECT_FALSE(fs::exists(run));
  const Result left = gpuhpc(command + " --embedding.bad-rows skip --embedding.test " +
                             file.string() + " --embedding.test-limit 12");
  ASSERT_EQ(left.code, 0) << left.output;
  EXPECT_THAT(left.output, HasSubstr("holes.csv: 4 bad rows are left out, 40 stay."));
  const Json files = metrics(run).at("files");
  EXPECT_EQ(files.at("train").at("rows"), 40);
  EXPECT_EQ(files.at("train").at("left_out"), 4);
  EXPECT_THAT(files.at("train").at("first_left_out")[2].get<std::string>(),
              HasSubstr("holes.csv:44: the score 1.2 is outside -1 to 1"));
  EXPECT_EQ(files.at("test").at("rows"), 12);
}

TEST_F(Embedding, MissingColumnsAndWrongNumbersOfThemAreRefusedBeforeAnythingIsComputed) {
  const fs::path run = root_ / "refused";
  const Result column = gpuhpc(arguments(run) + " --embedding.columns anchor,nothing");
  EXPECT_EQ(column.code, 65) << column.output;
  EXPECT_THAT(
      column.output,
      HasSubstr("train.jsonl:1: no string field `nothing` among the row's anchor, class, positive, "
                "score, together;"));
  const Result triplet = gpuhpc(arguments(run) + " --embedding.loss triplet");
  EXPECT_EQ(triplet.code, 2) << triplet.output;
  EXPECT_THAT(triplet.output, HasSubstr("--embedding.loss triplet with 2 columns"));
  const std::string two = " --embedding.validation " + (root_ / "test.jsonl").string();
  const Result twice = gpuhpc(arguments(run) + two + " --train.validation .2");
  EXPECT_EQ(twice.code, 2) << twice.output;
  EXPECT_THAT(twice.output, HasSubstr("--embedding.validation and --train.validation 0.2 both"));
  const Result same =
      gpuhpc(arguments(run) + " --embedding.loss simcse --embedding.columns anchor");
  EXPECT_EQ(same.code, 2) << same.output;
  EXPECT_THAT(same.output, HasSubstr("simcse with --train.dropout 0"));
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(Embedding, NegativesAreTheSameOnAnyNumberOfRanksAndCanBeLearnt) {
  write_pairs("train", 600, "many");  // more than one block of anchors
  const std::string mine = "mine --embedding.train " + (root_ / "many.jsonl").string() +
                           " --model.encoder " + std::string(GPUHPC_MODELS) +
                           "/all-MiniLM-L6-v2 --device.kind cpu --device.threads 1 "
                           "--infer.max-length 16 --mining.negatives 2 --mining.relative-margin .1";
  const fs::path one = root_ / "mined-1", two = root_ / "mined-2";
  const Result mined = gpuhpc(mine + " --run.dir " + one.string());
  ASSERT_EQ(mined.code, 0) << mined.output;
  ASSERT_EQ(gpuhpc(mine + " --run.dir " + two.string(), 2).code, 0);
  EXPECT_EQ(read(one / "mined.jsonl"), read(two / "mined.jsonl"));
  const Json figures = metrics(one);
  EXPECT_GT(figures.at("left_out_by_rule").at("relative_margin"), 0);
  EXPECT_GT(figures.at("mean_positive_cosine"), figures.at("mean_negative_cosine"));
  EXPECT_EQ(figures.at("rows"),
            figures.at("pairs").get<int>() - figures.at("pairs_with_too_few_negatives").get<int>());
  const Result learnt =
      gpuhpc(arguments(root_ / "learnt") + " --embedding.train " + (one / "mined.jsonl").string() +
             " --embedding.columns anchor,positive,negative_1,negative_2 "
             "--train.max-steps 1 --embedding.test ''");
  EXPECT_EQ(learnt.code, 0) << learnt.output;
  const Result columns = gpuhpc(mine + " --embedding.columns anchor --run.dir " + one.string());
  EXPECT_EQ(columns.code, 2) << columns.output;
  EXPECT_THAT(columns.output, HasSubstr("mine needs two columns"));
}

// The cosines that negatives were chosen by are those of the vectors that `encode` writes.
TEST_F(Embedding, MinedScoresAreThoseOfTheVectorsAndCanBeLearnt) {
  const std::string model = std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2",
                    common =
                        " --device.kind cpu --device.threads 1 --infer.precision fp32 "
                        "--infer.max-length 16 --model.encoder " +
                        model,
                    mine = "mine --mining.scores true --embedding.train " +
                           (root_ / "test.jsonl").string() + common;
  const fs::path tuples = root_ / "scores-2", triplets = root_ / "scores-1";
  ASSERT_EQ(gpuhpc(mine + " --mining.negatives 2 --run.dir " + tuples.string()).code, 0);
  ASSERT_EQ(gpuhpc(mine + " --mining.negatives 1 --run.dir " + triplets.string(), 2).code, 0);
  const auto rows_of = [](const fs::path& path) {
    std::vector<Json> rows;
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
    return rows;
  };
  const auto vectors = [&](const char* field) {
    const fs::path out = root_ / (std::string(field) + "-vectors.jsonl");
    const Result encoded =
        gpuhpc("encode" + common + " --input.text-field " + field + " --input.file " +
               (tuples / "mined.jsonl").string() + " --output.file " + out.string());
    EXPECT_EQ(encoded.code, 0) << encoded.output;
    return rows_of(out);
  };
  const std::vector<Json> rows = rows_of(tuples / "mined.jsonl"),
                          pairs = rows_of(triplets / "mined.jsonl"), anchors = vectors("anchor");
  ASSERT_EQ(rows.size(), 40u);
  ASSERT_EQ(pairs.size(), 40u);
  std::size_t place = 0;
  for (const char* field : {"positive", "negative_1", "negative_2"}) {
    const std::vector<Json> others = vectors(field);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto a = anchors[i].at("embedding").get<std::vector<double>>(),
                 b = others[i].at("embedding").get<std::vector<double>>();
      const auto product = [](const auto& x, const auto& y) {
        return std::inner_product(x.begin(), x.end(), y.begin(), 0.);
      };
      EXPECT_NEAR(rows[i].at("scores").at(place).get<double>(),
                  product(a, b) / std::sqrt(product(a, a) * product(b, b)), 1e-5)
          << field << " of row " << i;
    }
    ++place;
  }
  EXPECT_FALSE(rows[0].contains("margin"));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(pairs[i].at("scores").at(0), rows[i].at("scores").at(0));
    EXPECT_EQ(pairs[i].at("scores").at(1), rows[i].at("scores").at(1));
    EXPECT_NEAR(
        pairs[i].at("margin").get<double>(),
        pairs[i].at("scores").at(0).get<double>() - pairs[i].at("scores").at(1).get<double>(),
        1e-6);
  }
  const auto learn = [&](const fs::path& mined, const std::string& loss) {
    return gpuhpc(arguments(root_ / "taught") + " --embedding.train " +
                  (mined / "mined.jsonl").string() +
                  " --train.max-steps 1 --embedding.test '' --embedding.loss " + loss);
  };
  const Result distilled = learn(tuples,
                                 "distill --embedding.score scores --embedding.columns "
                                 "anchor,positive,negative_1,negative_2"),
               margins = learn(triplets,
                               "margin-mse --embedding.score margin --embedding.columns "
                               "anchor,positive,negative_1");
  EXPECT_EQ(distilled.code, 0) << distilled.output;
  EXPECT_EQ(margins.code, 0) << margins.output;
}

// Those of a cross-encoder, in the order of the texts.
TEST_F(Embedding, MinedScoresOfACrossEncoderAreInTheOrderOfTheTexts) {
  const fs::path run = root_ / "judged";
  const Result mined = gpuhpc(
      "mine --mining.scores true --mining.negatives 3 --mining.rows n-tuple --mining.max-score .99 "
      "--mining.cross-encoder " +
      (kSource / "tests/infer/fixtures/ranker").string() + " --embedding.train " +
      (root_ / "test.jsonl").string() + " --model.encoder " + std::string(GPUHPC_MODELS) +
      "/all-MiniLM-L6-v2 --device.kind cpu --device.threads 1 --run.dir " + run.string());
  ASSERT_EQ(mined.code, 0) << mined.output;
  std::ifstream lines(run / "mined.jsonl");
  double positives = 0, negatives = 0;
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto scores = Json::parse(line).at("scores").get<std::vector<double>>();
    ASSERT_EQ(scores.size(), 4u);
    EXPECT_TRUE(std::is_sorted(scores.rbegin(), scores.rend() - 1)) << line;
    positives += scores[0];
    negatives += scores[1] + scores[2] + scores[3];
  }
  ASSERT_GT(rows, 0);
  EXPECT_NEAR(metrics(run).at("mean_positive_score").get<double>(), positives / rows, 1e-6);
  EXPECT_NEAR(metrics(run).at("mean_negative_score").get<double>(), negatives / rows / 3, 1e-6);
}

TEST_F(Embedding, StoredVectorsAreTheSameOnAnyNumberOfRanks) {
  const auto encode = [&](const std::string& more, int ranks) {
    const fs::path out = root_ / "stored.jsonl";
    const Result result =
        gpuhpc("encode --device.kind cpu --device.threads 1 --model.encoder " +
                   std::string(GPUHPC_MODELS) +
                   "/all-MiniLM-L6-v2 --input.text-field anchor "
                   "--input.file " +
                   (root_ / "train.jsonl").string() + " --output.file " + out.string() + more,
               ranks);
    EXPECT_EQ(result.code, 0) << result.output;
    return read(out);
  };
  const auto vectors = [](const std::string& lines) {
    std::vector<std::vector<double>> rows;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);)
      rows.push_back(Json::parse(line).at("embedding").get<std::vector<double>>());
    return rows;
  };
  const auto plain = vectors(encode("", 1));
  const std::string int8 = encode(" --output.quantize int8", 1);
  EXPECT_EQ(int8, encode(" --output.quantize int8", 2));
  const auto bytes = vectors(int8), bits = vectors(encode(" --output.quantize ubinary", 1));
  ASSERT_EQ(bits[0].size(), 48u);
  for (std::size_t column = 0; column < 384; ++column) {
    std::size_t least = 0;
    for (std::size_t i = 0; i < plain.size(); ++i)
      if (plain[i][column] < plain[least][column]) least = i;
    EXPECT_EQ(bytes[least][column], -128) << column;
    EXPECT_EQ(static_cast<int>(bits[1][column / 8]) >> (7 - column % 8) & 1, plain[1][column] > 0);
  }
  // Ranges of other texts: a value may lie outside.
  EXPECT_NE(
      int8,
      encode(" --output.quantize int8 --output.calibration " + (root_ / "test.jsonl").string(), 1));
  const Result unused = gpuhpc("encode --output.quantize binary --output.calibration " +
                               (root_ / "test.jsonl").string());
  EXPECT_EQ(unused.code, 2) << unused.output;
  EXPECT_THAT(unused.output, HasSubstr("gives the ranges of int8 and uint8"));
}

}  // namespace
}  // namespace gpuhpc_test
