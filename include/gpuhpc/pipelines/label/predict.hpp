#pragma once
// Documents through a classifier and a decoder, chunk by chunk, in order, in bounded memory.
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/pipelines/label/classifier.hpp"

namespace gpuhpc {

// The next chunk; false at the end. Collective.
using ChunkSource = std::function<bool(DocumentChunk&)>;
// Of shards with texts, made by the classifier's tokenizer. Both must outlive the source.
ChunkSource chunks_of(const TokenDataset& documents, const Communicator& comm);
// Of a file or standard input that the root alone reads; each rank tokenises its own rows, each
// behind `prefix`.
ChunkSource chunks_of(const std::filesystem::path& corpus, const CorpusOptions& options,
                      const Tokenizer& tokenizer, Communicator& comm, int threads,
                      std::string prefix = "");

struct Prediction {
  std::string id;
  std::vector<std::int32_t> labels;  // most probable first
  std::vector<ClassScore> scores;    // of every class, best first
};

// Each rank scores and decodes its own rows; the root gets every prediction in order through
// `sink`. Collective. `progress`: documents done.
void predict_corpus(const Classifier& classifier, const ChunkSource& source,
                    const DecodeOptions& decode, Communicator& comm, int threads,
                    const std::function<void(const Prediction&)>& sink,
                    const std::function<void(std::int64_t)>& progress);

}  // namespace gpuhpc
