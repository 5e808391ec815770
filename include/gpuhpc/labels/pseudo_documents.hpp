#pragma once
// Augmentation without an LLM: documents for starved classes, put together from class terms and the
// nearest sentences of the corpus.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct PseudoDocumentOptions {
  std::int64_t documents = 5;  // a path
  std::int64_t sentences = 3;  // of the nearest ones, drawn for each document
  std::int64_t terms = 4;      // class terms drawn for each document
};

// At `.`, `!`, `?` followed by a space, and at line ends; pieces shorter than `minimum` bytes join
// the one before.
std::vector<std::string> split_sentences(std::string_view text, std::size_t minimum = 24);

// Documents about the class that ends `path`: "{title}. {sentence} {sentence} .. {term}, {term}."
// The same stream gives the same documents: use RandomStream(seed, path index). Without sentences
// or terms these parts are left out.
std::vector<std::string> build_pseudo_documents(const Taxonomy& taxonomy, const ClassPath& path,
                                                std::span<const std::string> terms,
                                                std::span<const std::string> nearest_sentences,
                                                const PseudoDocumentOptions& options,
                                                RandomStream& random);

// Classes with fewer than `minimum` documents, ascending.
std::vector<ClassId> starved_classes(std::span<const std::int64_t> document_counts,
                                     std::int64_t minimum);

}  // namespace gpuhpc
