#include "gpuhpc/pipelines/label/predict.hpp"

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"

namespace gpuhpc {
namespace {

// The labels of a rank's rows, whose marginals become probabilities.
std::vector<ClassList> decode_rows(const Decoder& decoder, double expected_leaves,
                                   ClassScores& scores, int threads) {
  std::vector<ClassList> labels(static_cast<std::size_t>(scores.marginals.rows));
  parallel_for(0, scores.marginals.rows, threads, [&](std::int64_t i, int) {
    const MutableMatrixView marginals = scores.marginals.view().slice(i, 1);
    const auto place = static_cast<std::size_t>(i);
    labels[place] = decoder.decode(
        marginals.row(0),
        scores.posterior.rows > 0 ? scores.posterior.row(i) : std::span<const float>{},
        !scores.told.empty() && scores.told[place] != 0);
    to_probabilities(marginals, expected_leaves);
  });
  return labels;
}

}  // namespace

void predict_corpus(const Classifier& classifier, const ChunkSource& source,
                    const std::function<std::vector<Matrix>(const DocumentChunk&)>& vectors,
                    const DecodeOptions& decode, Communicator& comm, int threads,
                    const std::function<void(const Prediction&)>& sink,
                    const std::function<void(std::int64_t)>& progress) {
  const Decoder decoder(classifier.taxonomy(), decode);
  for (DocumentChunk chunk; source(chunk);) {
    ClassScores scores = classifier.score(chunk.texts, vectors(chunk), comm);
    std::vector<ClassList> labels;
    run_collectively(comm, [&] {
      check_scores(scores.marginals.view(), classifier.taxonomy(),
                   [&](std::int64_t i) { return chunk.name(chunk.own.first + i); });
      labels = decode_rows(decoder, decode.leaves(), scores, threads);
    });
    labels = comm.all_gather_lists(std::span<const ClassList>(labels));
    Matrix probabilities(chunk.tokens.size, scores.marginals.columns);
    probabilities.values = comm.all_gather_v(std::span<const float>(scores.marginals.values));
    const std::vector<char> told = comm.all_gather_v(std::span<const char>(scores.told));
    on_root(comm, [&] {
      std::vector<Prediction> predictions(chunk.ids.size());
      parallel_for(0, probabilities.rows, threads, [&](std::int64_t i, int) {
        Prediction& p = predictions[static_cast<std::size_t>(i)];
        p.id = std::move(chunk.ids[static_cast<std::size_t>(i)]);
        p.labels = std::move(labels[static_cast<std::size_t>(i)]);
        p.told = !told.empty() && told[static_cast<std::size_t>(i)] != 0;
        for (std::int64_t c = 0; c < probabilities.columns; ++c)
          p.scores.push_back(
              {static_cast<std::int32_t>(c), probabilities.row(i)[static_cast<std::size_t>(c)]});
        sort_scores(p.scores);
      });
      for (const Prediction& prediction : predictions) sink(prediction);
    });
    progress(chunk.tokens.size);
  }
}

}  // namespace gpuhpc
