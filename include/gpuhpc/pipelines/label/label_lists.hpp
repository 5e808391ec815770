#pragma once
// labels.jsonl: what a classifier is to learn of each document, {"id", "positives": [..], "masked":
// [..], "generated": ..} a line.
#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpuhpc/nn/losses.hpp"

namespace gpuhpc {

struct LabelledSet {
  MultiLabelTargets labels;  // one entry a document, generated ones last
  std::vector<std::int64_t>
      documents;  // those with a positive: a document without core class teaches nothing
  std::int64_t real = 0, generated = 0;
};

// input_error when no document has a positive.
LabelledSet read_labels(const std::filesystem::path& path);

}  // namespace gpuhpc
