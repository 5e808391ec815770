#pragma once
// The real binary on real data and real weights, small: 300 training and 100 test documents of the
// demo's corpus and, but where quality is measured, the first two of the encoder's six layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace gpuhpc_test {
namespace fs = std::filesystem;
using testing::HasSubstr;
using Json = nlohmann::json;

inline const fs::path kSource = fs::current_path();  // tests run in the repository's root
inline const fs::path kMiniLm = fs::path(GPUHPC_MODELS) / "all-MiniLM-L6-v2";
inline const std::vector<std::string> kStages = {
    "01-encoding", "02-refinement",    "03-augmentation", "04-hierarchy",
    "05-training", "06-test-encoding", "07-inference"};

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Result {
  int code = 0;
  std::string output;
};

// The program, while it runs.
class Child {
 public:
  Child(const std::string& words, const fs::path& log) : log_(log) {
    pid_ = fork();
    if (pid_ != 0) return;
    signal(SIGINT, SIG_DFL);  // ignored where the tests run in the background of a shell
    execl("/bin/sh", "sh", "-c",
          ("exec " + std::string(GPUHPC_BINARY) + " " + words + " >" + log.string() +
           " 2>&1 </dev/null")
              .c_str(),
          nullptr);
    _exit(127);
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  // Waits until the output holds these words; false when the process is gone before.
  bool says(const std::string& words) {
    while (read(log_).find(words) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (waitpid(pid_, &status_, WNOHANG) == 0) continue;
      pid_ = 0;
      return false;
    }
    return true;
  }
  void interrupt() const { kill(pid_, SIGINT); }
  int status() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = 0;
    return status_;
  }

 private:
  fs::path log_;
  pid_t pid_ = 0;
  int status_ = 0;
};

class Pipeline : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_up(2); }
  static void set_up(int layers) {
    root_ = fs::temp_directory_path() / ("gpuhpc-pipeline-" + std::to_string(::getpid()));
    make_input(root_ / "input");
    make_encoder(root_ / "encoder", layers);
    ASSERT_EQ(gpuhpc(arguments(root_ / "reference")).code, 0);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static Result shell(const std::string& command) {
    const fs::path log = root_ / "output.txt";
    const int status =
        std::system(("( " + command + " ) >" + log.string() + " 2>&1 </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(log)};
  }
  static Result gpuhpc(const std::string& words, int ranks = 1) {
    const std::string launcher =
        ranks == 1 ? "" : kSource.string() + "/scripts/mpirun.sh " + std::to_string(ranks) + " ";
    const char* level = std::getenv("GPUHPC_TEST_ISA");  // set by scripts/levels.sh
    Result result = shell(launcher + GPUHPC_BINARY + " " + words +
                          (level != nullptr ? std::string(" --device.isa ") + level : ""));
    EXPECT_TRUE(result.code == 0 || !result.output.empty());
    return result;
  }
  static std::string arguments(const fs::path& run, const fs::path& input = root_ / "input",
                               const std::string& adapt = "none") {
    return "run --input.dir " + input.string() + " --run.dir " + run.string() +
           " --pipeline.adapt " + adapt + " --model.encoder " + (root_ / "encoder").string() +
           " --device.kind cpu --device.threads 1 --train.precision fp32 "
           "--train.layers 1 --train.max-length 24 --infer.max-length 32 --eval.bootstrap-samples "
           "50";
  }
  static void make_input(const fs::path& input) {
    const fs::path data = kSource / "data/debtags-topical";
    fs::create_directories(input / "train");
    fs::create_directories(input / "test");
    for (const char* name : {"labels.txt", "label_hierarchy.txt", "label_descriptions.txt"})
      fs::copy_file(data / name, input / name);
    for (const std::string file : {"train/corpus.txt", "test/corpus.txt", "test/doc2labels.txt"})
      ASSERT_EQ(shell("bash -c 'set -o pipefail; gzip -dc " + (data / (file + ".gz")).string() +
                      " | sed -n 1," + (file[1] == 'r' ? "300" : "100") + "p > " +
                      (input / file).string() + "'")
                    .code,
                0);
  }
  // MiniLM with its first so many layers of six.
  static void make_encoder(const fs::path& to, int layers) {
    fs::copy(kMiniLm, to, fs::copy_options::recursive);
    Json config = Json::parse(read(to / "config.json"));
    if (layers == config.at("num_hidden_layers").get<int>()) return;
    config["num_hidden_layers"] = layers;
    std::ofstream(to / "config.json") << config;
    const std::string whole = read(to / "model.safetensors");  // 8 bytes: the header's length
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), sizeof length);
    Json tensors = Json::parse(whole.substr(8, length)), header;
    std::string weights;
    for (auto& [name, tensor] : tensors.items()) {
      const std::string in_layer = "encoder.layer.";
      if (name == "__metadata__" ||
          (name.starts_with(in_layer) && std::stoi(name.substr(in_layer.size())) >= layers))
        continue;
      const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
      tensor["data_offsets"] = {weights.size(), weights.size() + end - begin};
      header[name] = tensor;
      weights += whole.substr(8 + length + begin, end - begin);
    }
    const std::string text = header.dump();
    length = text.size();
    std::ofstream(to / "model.safetensors", std::ios::binary)
            .write(reinterpret_cast<const char*>(&length), sizeof length)
        << text << weights;
  }
  static Json metrics(const fs::path& run) { return Json::parse(read(run / "metrics.json")); }
  static std::vector<double> training_losses(const fs::path& run) {
    std::vector<double> losses;
    std::ifstream lines(run / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (const Json values = Json::parse(line); values.contains("loss"))  // else a validation's
        losses.push_back(values.at("loss"));
    return losses;
  }
  static std::map<std::string, Json> predictions(const fs::path& file) {
    std::map<std::string, Json> rows;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      Json row = Json::parse(line);
      rows[row.at("id")] = row;
    }
    return rows;
  }
  static double largest_difference(const fs::path& a, const fs::path& b) {
    const auto first = predictions(a), second = predictions(b);
    EXPECT_EQ(first.size(), 100u);
    EXPECT_EQ(first.size(), second.size());
    double most = 0;
    for (const auto& [id, row] : first)
      for (const auto& [name, score] : row.at("scores").items())
        most = std::max(
            most, std::abs(score.get<double>() - second.at(id).at("scores").value(name, 0.0)));
    return most;
  }
  static void expect_same_files(const fs::path& a, const fs::path& b) {
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(a))
      if (entry.is_regular_file()) {
        ++files;
        EXPECT_TRUE(read(entry.path()) == read(b / fs::relative(entry.path(), a)))
            << fs::relative(entry.path(), a);
      }
    EXPECT_GT(files, 1);
  }
  // Every file of every stage but the two that hold times.
  static void expect_same_stages(const fs::path& a, const fs::path& b) {
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(a / "stages")) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name == "metrics.jsonl" || name == "ranks.jsonl") continue;
      ++files;
      const fs::path place = fs::relative(entry.path(), a);
      EXPECT_TRUE(read(entry.path()) == read(b / place)) << b << " " << place;
    }
    EXPECT_GT(files, 12);
  }
  // Where quality is measured: the whole encoder, which reads up to its own limit.
  static inline const std::string kAsUsed =
      " --model.encoder " + kMiniLm.string() + " --train.max-length 48 --infer.max-length 0";
  // A run folder with the finished stages of `reference`.
  static fs::path copied(const std::string& name) {
    fs::copy(root_ / "reference", root_ / name, fs::copy_options::recursive);
    return root_ / name;
  }
  // Kills the program as soon as a stage has begun and starts it again, stage after stage; it ends
  // with the files of the run that nobody killed.
  static void expect_same_after_kills(const std::string& words, const fs::path& run,
                                      const std::vector<std::string>& stages) {
    for (const std::string& stage : stages) {
      const fs::path partial = run / "stages" / (stage + ".partial");
      bool killed = false;
      for (int attempt = 0; attempt < 20 && !killed; ++attempt) {
        fs::remove_all(run / "stages" / stage);
        const pid_t child = fork();
        if (child == 0) {
          setpgid(0, 0);
          execl("/bin/sh", "sh", "-c",
                (std::string(GPUHPC_BINARY) + " " + words + " >/dev/null 2>&1").c_str(), nullptr);
          _exit(127);
        }
        setpgid(child, child);
        int status = 0;
        while (!fs::exists(partial) && waitpid(child, &status, WNOHANG) == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        killed = fs::exists(partial);  // else the stage was over before the signal came: again
      }
      ASSERT_TRUE(killed) << stage;
    }
    ASSERT_EQ(gpuhpc(words).code, 0);
    for (const char* file : {"predictions.jsonl", "submission.csv", "model/model.safetensors"})
      EXPECT_TRUE(read(run / file) == read(root_ / "reference" / file)) << file;
    for (const std::string& stage : stages)
      EXPECT_FALSE(fs::exists(run / "stages" / (stage + ".partial")));
    fs::remove_all(run);
  }
  static inline fs::path root_;
};

}  // namespace gpuhpc_test
