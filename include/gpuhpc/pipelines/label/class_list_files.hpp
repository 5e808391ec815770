#pragma once
// Class lists of documents: TELEClass's JSON files, and the pieces of ranks put together.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

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

// The lists of all ranks one behind the other, on every rank.
std::vector<ClassList> gather_lists(std::span<const ClassList> own, Communicator& comm);

}  // namespace gpuhpc
