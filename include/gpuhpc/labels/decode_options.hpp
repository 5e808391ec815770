#pragma once
// [decode]: how class probabilities become a set of labels.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct DecodeOptions {
  static constexpr const char* section = "decode";
  std::string mode = "expected-f1";  // expected-f1, chain, threshold, top-k
  double expected_leaves = 1.5;      // expected-f1: leaves a document is expected to have
  std::int64_t minimum = 2;   // expected-f1, chain: classes at least (where the taxonomy has them)
  std::int64_t maximum = 12;  // expected-f1: classes at most, before best paths are added on a DAG
  double threshold = .5;      // threshold
  std::int64_t k = 3;         // top-k

  void check() const;  // configuration_error for limits that contradict each other
};
void declare(config::Section& section, DecodeOptions& options);

}  // namespace gpuhpc
