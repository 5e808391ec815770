#include "gpuhpc/pipelines/label/predict.hpp"

#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/labels/decoding.hpp"

namespace gpuhpc {

BroadcastReader::BroadcastReader(const std::filesystem::path& corpus, const CorpusOptions& options,
                                 Communicator& comm)
    : comm_(comm) {
  on_root(comm, [&] { reader_ = std::make_unique<CorpusReader>(corpus, options); });
}

bool BroadcastReader::next(std::int64_t most, std::vector<std::string>& ids,
                           std::vector<std::string>& texts) {
  ids.clear();
  texts.clear();
  std::vector<std::int64_t> lengths;
  std::string joined;
  on_root(comm_, [&] {
    for (Document document; std::ssize(ids) < most && reader_->next(document);) {
      ids.push_back(std::move(document.id));
      lengths.push_back(std::ssize(document.text));
      joined += document.text;
    }
  });
  std::int64_t count = std::ssize(lengths);
  comm_.broadcast(&count, 1, DataType::int64, 0);
  lengths.resize(static_cast<std::size_t>(count));
  comm_.broadcast(std::span<std::int64_t>(lengths));
  joined = comm_.broadcast_string(std::move(joined));
  std::size_t at = 0;
  for (const std::int64_t length : lengths) {
    texts.push_back(joined.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return count > 0;
}

void predict_corpus(const Classifier& classifier, const std::filesystem::path& corpus,
                    const CorpusOptions& corpus_options, const DecodeOptions& decode,
                    Communicator& comm, int threads,
                    const std::function<void(const Prediction&)>& sink,
                    const std::function<void(std::int64_t)>& progress) {
  DecodeOptions options = decode;
  if (classifier.gives_memberships()) options.expected_leaves = 1;
  const Decoder decoder(classifier.taxonomy(), options);
  BroadcastReader reader(corpus, corpus_options, comm);
  std::vector<std::string> ids, texts;
  while (reader.next(prediction_chunk, ids, texts)) {
    const ClassScores scores = classifier.score(texts, comm);
    on_root(comm, [&] {
      std::vector<Prediction> predictions(ids.size());
      parallel_for(0, std::ssize(ids), threads, [&](std::int64_t i, int) {
        Prediction& p = predictions[static_cast<std::size_t>(i)];
        p.id = ids[static_cast<std::size_t>(i)];
        const auto marginals = scores.marginals.row(i);
        p.labels = decoder.decode(marginals, scores.posterior.rows > 0 ? scores.posterior.row(i)
                                                                       : std::span<const float>{});
        for (std::size_t c = 0; c < marginals.size(); ++c)
          p.scores.push_back({static_cast<std::int32_t>(c), marginals[c]});
        sort_scores(p.scores);
      });
      for (const Prediction& prediction : predictions) sink(prediction);
    });
    progress(std::ssize(texts));
  }
}

}  // namespace gpuhpc
