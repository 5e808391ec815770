#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

// One tokenizer, four threads, the same lines: the same ids, more than `least`.
inline void expect_same_ids_in_threads(const Tokenizer& tokenizer,
                                       const std::vector<std::string>& lines, std::size_t least) {
  std::vector<std::vector<std::int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (const auto& line : lines) tokenizer.encode(line, result);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_GT(results[0].size(), least);
}

}  // namespace gpuhpc
