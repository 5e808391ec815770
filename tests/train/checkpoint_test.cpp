// Checkpoints on one rank: the round trip, what is kept, every kind of damage, every failing system
// call.
#include "gpuhpc/train/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "checkpoint_fixture.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

class Checkpoint : public CheckpointFolder {
 protected:
  CheckpointStore store() { return CheckpointStore(settings(), *comm_, log_); }
  void save(std::int64_t step, std::optional<double> metric = {}) {
    CheckpointStore writer = store();
    save(writer, step, metric);
  }
  void save(CheckpointStore& writer, std::int64_t step, std::optional<double> metric = {}) {
    Sample sample(step);
    CheckpointState state = sample.state();
    state.metric = metric;
    writer.start(sample.buffers(), state);
    writer.finish();
  }
  // The step that a new run would go on from; its values are compared with those saved.
  std::int64_t load() {
    text_.str("");
    Sample sample(0);
    const auto state = store().load(sample.buffers());
    if (!state) return -1;
    EXPECT_TRUE(sample.equals(Sample(state->step)));
    const CheckpointState saved = Sample(state->step).state();
    EXPECT_EQ(state->values, saved.values);
    return state->step;
  }
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  static std::string read(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  std::string other_content_;
  const std::unique_ptr<Communicator> comm_ = make_single_communicator();
};

TEST_F(Checkpoint, EverythingReturnsToTheBit) {
  EXPECT_EQ(load(), -1);
  save(7);
  EXPECT_EQ(load(), 7);
  EXPECT_EQ(text_.str(), "") << "nothing to complain about";
}

TEST_F(Checkpoint, TheNewestAndTheBestStay) {
  CheckpointStore writer = store();
  const std::vector<double> metrics = {.2, .9, .3, .9, .5, .1, .4};
  for (std::size_t i = 0; i < metrics.size(); ++i)
    save(writer, static_cast<std::int64_t>(i + 1), metrics[i]);
  EXPECT_EQ(folders(),
            (std::vector<std::string>{"step-00000002", "step-00000006", "step-00000007"}));
  EXPECT_EQ(load(), 7);
  // A later start knows the best one's metric again.
  CheckpointStore later = store();
  Sample sample(0);
  later.load(sample.buffers());
  for (const std::int64_t step : {8, 9, 10}) save(later, step, .6);
  EXPECT_EQ(folders(),
            (std::vector<std::string>{"step-00000002", "step-00000009", "step-00000010"}));
}

TEST_F(Checkpoint, OneWithoutManifestIsNone) {
  save(1), save(2);
  fs::remove(folder_ / "step-00000002/manifest.json");
  EXPECT_EQ(load(), 1);
  EXPECT_THAT(text_.str(), HasSubstr("it was not finished"));
  EXPECT_EQ(folders(), std::vector<std::string>{"step-00000001"});
}

TEST_F(Checkpoint, ADamagedOneIsPutAsideAndItsStepWrittenAgain) {
  save(1), save(2);
  flip(folder_ / "step-00000002" / "part-00000-of-00001.bin", 12345);
  EXPECT_EQ(load(), 1);
  EXPECT_THAT(text_.str(), HasSubstr("part-00000-of-00001.bin: damaged"));
  EXPECT_EQ(folders(), (std::vector<std::string>{"step-00000001", "step-00000002.damaged"}));
  save(2);
  EXPECT_EQ(load(), 2);
}

TEST_F(Checkpoint, WithoutAWholeOneTrainingStartsAfresh) {
  save(3);
  flip(folder_ / "step-00000003/manifest.json", 77);
  EXPECT_EQ(load(), -1);
  EXPECT_THAT(text_.str(), HasSubstr("manifest.json: damaged"));
  EXPECT_THAT(text_.str(), HasSubstr("training starts at the beginning"));
}

// R5: 10,000 flips over all files of a checkpoint, every cut at a multiple of 4 KiB, missing and
// longer files.
TEST_F(Checkpoint, EveryDamageIsDetectedAndTheOneBeforeLoads) {
  save(1), save(2);
  const fs::path newest = folder_ / "step-00000002", aside = newest.string() + ".damaged";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(newest)) files.push_back(entry.path());
  std::ranges::sort(files);
  ASSERT_EQ(files.size(), 2U);
  std::int64_t flips = 0, cuts = 0, others = 0, detected = 0;
  const auto expect_previous = [&](std::int64_t& count, const fs::path& file,
                                   const std::string& content) {
    ++count;
    Sample sample(0);
    const auto state = store().load(sample.buffers());
    detected += state && state->step == 1 && (count % 100 != 0 || sample.equals(Sample(1))) ? 1 : 0;
    if (!fs::exists(newest)) {
      if (fs::exists(aside))
        fs::rename(aside, newest);
      else
        fs::create_directory(newest);
    }
    for (const fs::path& each : files)
      if (each == file || !fs::exists(each))
        std::ofstream(each, std::ios::binary) << (each == file ? content : other_content_);
  };
  RandomStream random(5, 0);
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string content = read(files[f]);
    other_content_ = read(files[1 - f]);
    for (std::int64_t i = 0; i < (f == 0 ? 2500 : 7500); ++i) {
      flip(files[f], static_cast<std::int64_t>(random.below(8 * content.size())));
      expect_previous(flips, files[f], content);
    }
    for (std::size_t cut = 0; cut < content.size(); cut += 4096) {
      fs::resize_file(files[f], cut);
      expect_previous(cuts, files[f], content);
    }
    fs::remove(files[f]);
    expect_previous(others, files[f], content);
    std::ofstream(files[f], std::ios::app) << '\0';
    expect_previous(others, files[f], content);
  }
  EXPECT_EQ(load(), 2) << "the copies above are whole";
  EXPECT_EQ(detected, flips + cuts + others);
  std::printf(
      "%ld bit flips, %ld cuts at 4 KiB, %ld missing or longer files: %ld detected, the one before "
      "loaded\n",
      static_cast<long>(flips), static_cast<long>(cuts), static_cast<long>(others),
      static_cast<long>(detected));
}

TEST_F(Checkpoint, AnotherTaskIsRefusedWithWhatDiffers) {
  save(1);
  CheckpointSettings other = settings();
  other.task = {"f2", {"train.batch = 32", "train.seed = 43"}};
  Sample sample(0);
  try {
    CheckpointStore(other, *comm_, log_).load(sample.buffers());
    FAIL() << "was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_TRUE(error.on_all_ranks());
    EXPECT_THAT(error.what(), HasSubstr("train.seed = 42"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("train.batch")));
  }
  EXPECT_TRUE(sample.equals(Sample(0))) << "nothing was touched";
  EXPECT_EQ(load(), 1);
}

TEST_F(Checkpoint, WhoStartsAtTheBeginningIsToldOfThoseOfOtherOptions) {
  const fs::path all = folder_;
  folder_ = all / "theirs";
  save(1), save(2);
  CheckpointSettings mine = settings();
  mine.folder = all / "mine";
  mine.task = {"f2", {"train.batch = 32", "train.seed = 43"}};
  Sample sample(0);
  EXPECT_FALSE(CheckpointStore(mine, *comm_, log_).load(sample.buffers()));
  EXPECT_THAT(text_.str(), HasSubstr((all / "theirs").string() +
                                     " holds step 2 of training with train.seed = 42"));
  EXPECT_EQ(load(), 2) << "and stays";
  folder_ = all;
}

TEST_F(Checkpoint, AnotherModelIsRefused) {
  save(1);
  Sample sample(0, /*rows=*/333);
  try {
    store().load(sample.buffers());
    FAIL() << "was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_THAT(error.what(), HasSubstr("another model"));
  }
}

TEST_F(Checkpoint, TheCopyIsOfTheMomentOfTheStart) {
  CheckpointStore writer = store();
  Sample sample(5);
  writer.start(sample.buffers(), sample.state());
  sample.fill(6);  // training goes on
  writer.finish();
  EXPECT_EQ(load(), 5);
}

TEST_F(Checkpoint, LinesAfterTheStepAreCut) {
  const fs::path file = folder_ / "metrics.jsonl";
  fs::create_directories(folder_);
  cut_step_lines(file, 3);
  EXPECT_FALSE(fs::exists(file));
  std::ofstream(file) << "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"st";
  cut_step_lines(file, 3);
  EXPECT_EQ(read(file), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  cut_step_lines(file, 0);
  EXPECT_EQ(fs::file_size(file), 0U);
}

}  // namespace
}  // namespace gpuhpc
