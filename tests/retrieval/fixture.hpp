#pragma once
// Reads the committed answers of scikit-learn (data_tools/fixtures/make_retrieval.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc::testing_fixture {

inline std::vector<std::string> lines(const std::string& name) {
  std::ifstream file(std::filesystem::path(GPUHPC_FIXTURES) / name);
  if (!file) throw std::runtime_error("no fixture " + name);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  return all;
}

inline std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all;
  if (line.empty()) return all;
  std::size_t first = 0;
  for (std::size_t tab = line.find('\t'); tab != std::string::npos; tab = line.find('\t', first)) {
    all.push_back(line.substr(first, tab - first));
    first = tab + 1;
  }
  all.push_back(line.substr(first));
  return all;
}

// The corpus; \n, \t and \\ were escaped.
inline std::vector<std::string> texts() {
  std::vector<std::string> all;
  for (const std::string& line : lines("texts.txt")) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '\\')
        text += line[i];
      else
        text += line[++i] == 'n' ? '\n' : line[i] == 't' ? '\t' : '\\';
    }
    all.push_back(text);
  }
  return all;
}

}  // namespace gpuhpc::testing_fixture
