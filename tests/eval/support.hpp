#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc::test {

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(GPUHPC_FIXTURES) / name;
}

inline Taxonomy fixture_taxonomy() {
  return Taxonomy::load(fixture("labels.txt"), fixture("label_hierarchy.txt"));
}

// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuhpc-eval-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Two roots, `tools` (0) and `games` (1); 2, 3, 4 below tools, 5 below games, 6 below both 3 and 5.
inline Taxonomy small_taxonomy(const Folder& folder) {
  return Taxonomy::load(
      folder.write("labels.txt",
                   "0\ttools\n1\tgames\n2\tbackup\n3\teditors\n4\tmonitoring\n5\tpuzzles\n6\tlevel_"
                   "editors\n"),
      folder.write("label_hierarchy.txt", "0\t2\n0\t3\n0\t4\n1\t5\n3\t6\n5\t6\n"));
}

// The message of the Error that `work` throws; fails when it throws none or has another code.
template <typename Work>
std::string message_of(ExitCode code, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` is not in: " << text;
}

}  // namespace gpuhpc::test
