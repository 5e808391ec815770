#pragma once
// A stream of documents through a classifier and a decoder, in bounded memory, in order.
#include <functional>
#include <span>
#include <vector>

#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/labels/decode_options.hpp"
#include "gpuhpc/pipelines/label/classifier.hpp"

namespace gpuhpc {

inline constexpr std::int64_t prediction_chunk = 4096;  // documents in memory

struct Prediction {
  std::string id;
  std::vector<std::int32_t> labels;  // most probable first
  std::vector<ClassScore> scores;    // of every class, best first
};

// The root reads `corpus` and gets every prediction in order through `sink`. Collective.
// `progress`: documents done.
void predict_corpus(const Classifier& classifier, const std::filesystem::path& corpus,
                    const CorpusOptions& corpus_options, const DecodeOptions& decode,
                    Communicator& comm, int threads,
                    const std::function<void(const Prediction&)>& sink,
                    const std::function<void(std::int64_t)>& progress);

// The next documents of a stream that the root alone reads: their texts on every rank, their ids on
// the root. Collective.
class BroadcastReader {
 public:
  BroadcastReader(const std::filesystem::path& corpus, const CorpusOptions& options,
                  Communicator& comm);
  // False at the end.
  bool next(std::int64_t most, std::vector<std::string>& ids, std::vector<std::string>& texts);

 private:
  Communicator& comm_;
  std::unique_ptr<CorpusReader> reader_;  // root only
};

}  // namespace gpuhpc
