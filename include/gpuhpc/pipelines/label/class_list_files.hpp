#pragma once
// What documents are about: TELEClass's JSON files, the pieces of ranks put together, and
// labels.jsonl, what a classifier is to learn of each document, {"id", "positives": [..], "masked":
// [..], "generated": ..} a line.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/nn/losses.hpp"

namespace gpuhpc {

using ClassList = std::vector<ClassId>;

// {document: [class ids as strings]}, one document a line, in corpus order
// (refined_core_classes.json).
void write_class_lists(const std::filesystem::path& path, const TokenDataset& documents,
                       std::span<const ClassList> lists);
// {document: {"core classes": [..], "with ancestors": [..]}} (init_core_classes.json).
void write_core_classes(const std::filesystem::path& path, const TokenDataset& documents,
                        std::span<const ClassList> lists, const Taxonomy& taxonomy);
// Lists of refined_core_classes.json in the order of `documents`; a document without a row has
// none.
std::vector<ClassList> read_class_lists(const std::filesystem::path& path,
                                        const TokenDataset& documents, const Taxonomy& taxonomy);

struct LabelledSet {
  MultiLabelTargets labels;  // one entry per document, generated ones last
  std::vector<std::int64_t>
      documents;  // those with a positive: a document without core class teaches nothing
  std::int64_t real = 0, generated = 0;
};

// input_error when no document has a positive.
LabelledSet read_labels(const std::filesystem::path& path);

}  // namespace gpuhpc
