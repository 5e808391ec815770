#pragma once
// What a finished model/ folder keeps of the phases before training, so that new text is scored as
// the corpus was.
#include <filesystem>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/label/files.hpp"

namespace gpuhpc {

// Paths, posterior, neighbours' index and the encoder as it was.
void copy_teacher(const EncodingFiles& encoding, const PosteriorFiles& posterior,
                  const LoadedEncoder& teacher, const std::filesystem::path& model);

// Hashes of the training texts: where the test texts served as the corpus, a document keeps what
// the corpus gave it.
void write_text_hashes(const TokenDataset& corpus, const std::filesystem::path& path);

}  // namespace gpuhpc
