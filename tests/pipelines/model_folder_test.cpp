#include "gpuhpc/pipelines/label/model_folder.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <map>
#include <sstream>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What the manifest and the settings are about, without an encoder.
class ModelFolderFiles : public ::testing::Test {
 protected:
  ModelFolderFiles() {
    write_text_file(folder_ / "labels.txt", "0\tgame\n1\tchess\n");
    write_text_file(folder_ / "label_hierarchy.txt", "0\t1\n");
    copy_taxonomy({folder_ / "labels.txt", folder_ / "label_hierarchy.txt"}, model_);
    Matrix posterior(3, 2);
    write_matrix(model_ / "gpuhpc" / "posterior.h5", posterior.view());
    write_text_file(model_ / "model.safetensors", "weights");
    ClassifierSettings settings{.kind = "paths", .student = true};
    settings.scoring.centring.share = .3;
    settings.scoring.neighbours.k = 7;
    settings.scoring.smoothing.rounds = 0;
    settings.scoring.tfidf.longest_ngram = 3;
    write_settings(model_, settings);
    seal_model(model_);
  }

  ClassifierSettings open(const fs::path& model) { return open_model(model, *comm_, log_); }
  std::string refused(const fs::path& model) {
    return error_of(ExitCode::bad_data, [&] { open(model); });
  }
  // A copy that `damage` has changed is refused, naming the file.
  void expect_refused(const std::string& file, const std::function<void(const fs::path&)>& damage) {
    const fs::path copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(model_, copy, fs::copy_options::recursive);
    damage(copy / file);
    EXPECT_THAT(refused(copy), HasSubstr((copy / file).string()));
  }

  ScratchFolder folder_;
  fs::path model_ = folder_ / "model";
  std::unique_ptr<Communicator> comm_ = make_single_communicator();
  std::ostringstream said_;
  Log log_ = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_));
};

TEST_F(ModelFolderFiles, EveryFileIsTheOneThatWasSealed) {
  EXPECT_EQ(open(model_).kind, "paths");
  const auto append = [](const fs::path& file) {
    write_text_file(file, read_text_file(file) + "2\tgo\n");
  };
  for (const char* file :
       {"gpuhpc/labels.txt", "gpuhpc/label_hierarchy.txt", "model.safetensors"}) {
    expect_refused(file, append);
    expect_refused(file, [](const fs::path& path) { fs::remove(path); });
  }
  expect_refused("gpuhpc/labels.txt", [](const fs::path& path) {  // as long as it was
    write_text_file(path, "0\tchess\n1\tgame\n");
  });
  expect_refused("gpuhpc/posterior.h5", [](const fs::path& path) {
    Matrix other(3, 2);
    other.values[5] = .7F;
    write_matrix(path, other.view());
  });
  for (const char* value : {"0", "-1", "1099511627776", "8"})
    expect_refused("gpuhpc/settings.json", [&](const fs::path& path) {
      Json json = read_json(path);
      ASSERT_EQ(json.at("scoring").at("neighbours.k"), "7");
      json["scoring"]["neighbours.k"] = value;
      write_json(path, json);
    });
}

TEST_F(ModelFolderFiles, TheManifestSealsItselfAndStatesShapes) {
  const fs::path manifest = model_ / "gpuhpc/manifest.json";
  const Json json = read_json(manifest);
  EXPECT_EQ(json.at("files").at("gpuhpc/posterior.h5").at("arrays").at("values"), (Json{3, 2}));
  EXPECT_EQ(json.at("files").at("gpuhpc/labels.txt").at("bytes"), 15);
  expect_refused("gpuhpc/manifest.json", [&](const fs::path& path) {
    Json other = json;
    other["files"].erase("gpuhpc/labels.txt");
    write_json(path, other);
  });
  expect_refused("gpuhpc/manifest.json", [](const fs::path& path) { fs::remove(path); });
  expect_refused("gpuhpc/manifest.json", [](const fs::path& path) { write_text_file(path, "[]"); });
}

TEST_F(ModelFolderFiles, ASealedManifestNamesFilesOfItsFolderWithBytesAndHash) {
  const Json file{{"bytes", 1}, {"hash", "0"}};
  for (const auto& [name, facts] : std::map<std::string, Json>{{"../elsewhere", file},
                                                               {"/etc/passwd", file},
                                                               {"two\nlines", file},
                                                               {"labels.txt", {{"bytes", 1}}},
                                                               {"config.json", "none"}}) {
    write_model_manifest(model_, {{name, facts}});
    EXPECT_THAT(refused(model_), HasSubstr(Json(name).dump() + " is no file of this folder"));
  }
  write_model_manifest(model_, "none");
  EXPECT_THAT(refused(model_), HasSubstr("it does not say what its files are"));
}

TEST_F(ModelFolderFiles, AFileMoreIsSaidAndAnotherProgramsFolderIsLeftAlone) {
  write_text_file(model_ / "vocab.json", "{}");
  open(model_);
  EXPECT_THAT(said_.str(), HasSubstr((model_ / "vocab.json").string()));
  const fs::path foreign = folder_ / "foreign";
  write_text_file((create_folder(foreign), foreign / "config.json"), "{}");
  check_model(foreign, Manifest::where_there, *comm_, log_);
  error_of(ExitCode::bad_data, [&] { check_model(foreign, Manifest::required, *comm_, log_); });
  EXPECT_THAT(refused(foreign), HasSubstr("not a finished model"));
}

TEST_F(ModelFolderFiles, SettingsOfTheRunTravelAndWhatIsGivenWins) {
  const fs::path published = folder_ / "published";
  ClassifierSettings made = read_settings(model_);
  made.expected_leaves = 2.25;
  made.softmax_leaves = 1.75;
  made.labelling = {{.mode = "top-k", .expected_leaves = 2.5, .minimum = 1, .k = 4},
                    {.max_length = 32, .long_documents = "mean"}};
  publish_model(model_, published, made);
  fs::remove_all(model_);  // links, not references
  const ClassifierSettings settings = open(published);
  EXPECT_TRUE(settings.student);
  EXPECT_FALSE(settings.corrected);
  EXPECT_EQ(settings.expected_leaves, 2.25);
  EXPECT_EQ(settings.softmax_leaves, 1.75);
  EXPECT_EQ(settings.scoring.centring.share, .3);
  EXPECT_EQ(settings.scoring.neighbours.k, 7);
  EXPECT_EQ(settings.scoring.smoothing.rounds, 0);
  EXPECT_EQ(settings.scoring.tfidf.longest_ngram, 3);
  DecodeOptions decode;
  InferOptions infer;
  PathScoring scoring;
  config::OptionSet given;
  given.add("", decode);
  given.add("", infer);
  given.add("", scoring.centring);
  given.parse({}, {"--decode.k=2", "--decode.expected-leaves=2.5", "--scoring.centring=.3"});
  const Labelling chosen = choose_labelling(settings, given, *comm_, log_);
  EXPECT_EQ(chosen.decode.mode, "top-k");
  EXPECT_EQ(chosen.decode.expected_leaves, 2.5);
  EXPECT_EQ(chosen.decode.k, 2);
  EXPECT_EQ(chosen.infer.max_length, 32);
  EXPECT_EQ(chosen.infer.long_documents, "mean");
  EXPECT_THAT(said_.str(), HasSubstr("--decode.k 2 is taken; the model's run had 4"));
  EXPECT_THAT(said_.str(), Not(HasSubstr("leaves")));
  given.parse({}, {"--decode.expected-leaves=0"});
  EXPECT_EQ(choose_labelling(settings, given, *comm_, log_).decode.expected_leaves, 2.25);
  given.parse({}, {"--scoring.centring=.5"});
  EXPECT_THAT(error_of(ExitCode::usage, [&] { choose_labelling(settings, given, *comm_, log_); }),
              HasSubstr("--scoring.centring 0.5: the model was made with 0.3"));
}

TEST_F(ModelFolderFiles, ACorrectionIsReadBackAndOtherShapesAreRefused) {
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    Matrix made(rows, columns);
    for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] = static_cast<float>(i);
    return made;
  };
  const ClassifierSettings settings{
      .kind = "paths", .corrected = true, .expected_leaves = 3, .softmax_leaves = 2, .lift = .3};
  // Two classes, three labelled documents, vectors of five numbers.
  const auto read = [&](const Matrix& weights, const Matrix& truth,
                        const std::vector<std::int64_t>& hashes, std::int64_t classes,
                        std::int64_t width) {
    const fs::path published = folder_ / "corrected";
    fs::remove_all(published);
    ModelCorrection correction;
    correction.scores.documents = matrix(3, 5);
    correction.scores.weights = weights;
    correction.truth = truth, correction.hashes = hashes;
    publish_model(model_, published, settings, &correction);
    return load_correction(published, read_settings(published), classes, width);
  };
  const ModelCorrection found = read(matrix(2, 3), matrix(3, 2), {7, 8, 9}, 2, 5);
  EXPECT_EQ(found.scores.documents.values, matrix(3, 5).values);
  EXPECT_EQ(found.scores.weights.values, matrix(2, 3).values);
  EXPECT_EQ(found.scores.expected_leaves, 3);
  EXPECT_EQ(found.scores.softmax_leaves, 2);
  EXPECT_EQ(found.scores.lift, .3);
  EXPECT_EQ(found.truth.values, matrix(3, 2).values);
  EXPECT_EQ(found.hashes, (std::vector<std::int64_t>{7, 8, 9}));
  // Corrections of earlier versions: one that lifted scores otherwise or not at all, and one whose
  // weights meant something else.
  const fs::path file = folder_ / "corrected" / "gpuhpc" / "settings.json";
  Json earlier = read_json(file);
  earlier.erase("lift_of_middle");
  write_json(file, earlier);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_settings(folder_ / "corrected"); }),
              HasSubstr("settings.json: "));
  fs::remove_all(folder_ / "corrected");
  fs::create_directories(folder_ / "corrected" / "gpuhpc");
  const std::vector<std::int64_t> hashes{7, 8, 9};
  write_arrays(folder_ / "corrected" / "gpuhpc" / "correction.h5",
               {{"documents", matrix(3, 5).view()},
                {"score_weights", matrix(2, 3).view()},
                {"truth", matrix(3, 2).view()},
                {"hashes", std::span<const std::int64_t>(hashes)}});
  EXPECT_THAT(
      error_of(ExitCode::bad_data, [&] { load_correction(folder_ / "corrected", settings, 2, 5); }),
      HasSubstr("correction.h5: its labels were given to another model or another version"));
  const auto refused = [&](auto... arguments) {
    EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read(arguments...); }),
                HasSubstr("correction.h5"));
  };
  using Hashes = std::vector<std::int64_t>;
  // Of another encoder, or of a version that compared other numbers.
  EXPECT_THAT(
      error_of(ExitCode::bad_data,
               [&] {
                 read(matrix(2, 3), matrix(3, 2), Hashes{7, 8, 9}, 2, 4);
               }),
      HasSubstr("correction.h5: its labels were given to another model or another version"));
  refused(matrix(2, 3), matrix(3, 3), Hashes{7, 8, 9}, 2, 5);
  refused(matrix(3, 3), matrix(3, 2), Hashes{7, 8, 9}, 2, 5);
  refused(matrix(2, 3), matrix(3, 2), Hashes{7, 8}, 2, 5);
}

TEST_F(ModelFolderFiles, ExpectedLeavesOfAModelOfMembershipsAreRefused) {
  ClassifierSettings settings{.kind = "bilinear"};
  DecodeOptions decode;
  config::OptionSet given;
  given.add("", decode);
  given.parse({}, {"--decode.expected-leaves=3"});
  EXPECT_THAT(error_of(ExitCode::usage, [&] { choose_labelling(settings, given, *comm_, log_); }),
              HasSubstr("--decode.expected-leaves 3"));
}

}  // namespace
}  // namespace gpuhpc
