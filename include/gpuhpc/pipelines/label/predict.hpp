#pragma once
// Documents through a classifier and a decoder, chunk by chunk, in order, in bounded memory.
#include <functional>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"
#include "gpuhpc/pipelines/label/classifier.hpp"

namespace gpuhpc {

struct Prediction {
  std::string id;
  std::vector<std::int32_t> labels;  // most probable first
  // of every class, best first: the probability that the document belongs to it
  std::vector<ClassScore> scores;
  bool told = false;  // its labels are those that a person gave to its text
};

// Each rank scores and decodes its own rows; the root gets every prediction in order through
// `sink`. Collective. `vectors`: of a chunk's own rows, as Classifier::score() takes them;
// `decode`: ClassifierSettings::decoding_of_scores(); `progress`: documents done.
void predict_corpus(const Classifier& classifier, const ChunkSource& source,
                    const std::function<std::vector<Matrix>(const DocumentChunk&)>& vectors,
                    const DecodeOptions& decode, Communicator& comm, int threads,
                    const std::function<void(const Prediction&)>& sink,
                    const std::function<void(std::int64_t)>& progress);

}  // namespace gpuhpc
