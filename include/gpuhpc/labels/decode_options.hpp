#pragma once
// [decode]: how class probabilities become a set of labels.
#include <cstdint>
#include <string>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

struct DecodeOptions {
  static constexpr const char* section = "decode";
  std::string mode = "expected-f1";  // expected-f1, chain, threshold, top-k
  // Leaves a document is expected to have: makes memberships of marginals. 0: what the labelled
  // documents have, or default_leaves.
  double expected_leaves = 0;
  static constexpr double default_leaves = 1.5;
  double leaves() const { return expected_leaves > 0 ? expected_leaves : default_leaves; }
  std::int64_t minimum = 2;   // expected-f1, chain: classes at least (where the taxonomy has them)
  std::int64_t maximum = 12;  // expected-f1: classes at most, before best paths are added on a DAG
  double threshold = .5;      // threshold
  std::int64_t k = 3;         // top-k

  void check() const;  // configuration_error for limits that contradict each other
  // usage_error for what the command line gives and the mode does not read. A config may name it:
  // that of a run names all.
  void refuse_unread(const config::OptionSet& given) const;
};
void declare(config::Section& section, DecodeOptions& options);

}  // namespace gpuhpc
