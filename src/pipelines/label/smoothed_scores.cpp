#include "gpuhpc/pipelines/label/smoothed_scores.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/label/text_encoder.hpp"

namespace gpuhpc {

void write_smoothed_scores(const StageContext& c, const ScoredCorpus& corpus,
                           const std::filesystem::path& model, std::int64_t columns,
                           const std::function<void(MatrixView, MutableMatrixView)>& score,
                           const std::filesystem::path& output) {
  const TokenDataset documents(corpus.encoding.tokens);
  const std::filesystem::path embeddings = output.string() + ".documents",
                              first = output.string() + ".first";
  TextEncoder(model, corpus.infer, c.device, c.comm, c.log)
      .encode(documents, embeddings, c.comm, [&] { c.leave_if_asked(); });
  {
    const MappedMatrix rows(embeddings), classes(corpus.encoding.classes, "centred");
    const auto mean = classes.file().dataset<float>("document_mean");
    write_row_blocks(first, documents.size(), columns, c.comm, c.device.threads,
                     [&](Range range, MutableMatrixView scores) {
                       Matrix centred(range.size(), rows.view().columns);
                       std::copy_n(rows.view().row(range.first).data(), centred.values.size(),
                                   centred.values.data());
                       centre_rows(centred.view(), mean, corpus.scoring.centring.share);
                       score(std::as_const(centred).view(), scores);
                     });
  }
  SparseMatrix neighbours;
  run_collectively(c.comm, [&] {
    const Range own = own_documents(documents.size(), c.comm);
    neighbours = sparse_rows(read_sparse(corpus.posterior.neighbours), own.first, own.size());
  });
  smooth_posterior(first, neighbours, corpus.scoring.smoothing.rounds, .5, output, c.comm,
                   c.device.threads);
  on_root(c.comm, [&] {
    remove_file(embeddings);
    remove_file(first);
  });
}

}  // namespace gpuhpc
