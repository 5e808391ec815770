#include "gpuhpc/pipelines/label/neighbours.hpp"

#include <functional>

#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {
namespace {

TfidfModel fit_tfidf(const TokenDataset& corpus, const TfidfOptions& options, Communicator& comm,
                     int threads) {
  DocumentFrequencies own(options);
  run_collectively(comm, [&] {
    for_own_blocks(corpus, comm,
                   [&](Range, std::span<const std::string> texts) { own.add(texts, threads); });
  });
  if (comm.size() == 1) return TfidfModel(own);
  DocumentFrequencies all(options);
  const std::vector<std::int64_t> packed = own.pack();
  std::vector<std::int64_t> sizes = comm.all_gather_v(
      std::span<const std::int64_t>(std::vector<std::int64_t>{std::ssize(packed)}));
  const std::vector<std::int64_t> pieces = comm.all_gather_v(std::span<const std::int64_t>(packed));
  std::size_t at = 0;
  for (const std::int64_t size : sizes) {
    all.merge(std::span(pieces).subspan(at, static_cast<std::size_t>(size)));
    at += static_cast<std::size_t>(size);
  }
  return TfidfModel(all);
}

void append(Neighbours& all, const Neighbours& part) {
  all.k = part.k;
  all.indices.insert(all.indices.end(), part.indices.begin(), part.indices.end());
  all.weights.insert(all.weights.end(), part.weights.begin(), part.weights.end());
}

// Blocks of `unit` queries of the rows [own.first, own.last), dealt to threads, in row order.
Neighbours search_blocks(Range own, std::int64_t unit, int threads,
                         const std::function<Neighbours(Range)>& search) {
  std::vector<Neighbours> parts(static_cast<std::size_t>(block_count(own.size(), unit)));
  parallel_for(0, std::ssize(parts), threads, [&](std::int64_t i, int) {
    parts[static_cast<std::size_t>(i)] =
        search({own.first + i * unit, std::min(own.last, own.first + (i + 1) * unit)});
  });
  Neighbours all;
  for (const Neighbours& part : parts) append(all, part);
  return all;
}

Neighbours search_dense(MatrixView vectors, Range own, const NeighbourOptions& options,
                        Communicator& comm, int threads) {
  const bool approximate =
      options.approximate_above > 0 && vectors.rows > options.approximate_above;
  if (!approximate)
    return search_blocks(own, document_block, threads, [&](Range rows) {
      return dense_neighbours(vectors, vectors, rows, QuerySet::same, options);
    });
  // The clustered index searches in larger blocks: ranks own those, and hand the rows on to the
  // owners of documents.
  DenseIndex index(vectors, options);
  const Range blocks =
      items_of_rank(vectors.rows, DenseIndex::query_block, comm.rank(), comm.size());
  const std::vector<std::int32_t> clusters = index.assign(blocks);
  index.set_lists(comm.all_gather_v(std::span<const std::int32_t>(clusters)));
  const Neighbours mine = search_blocks(blocks, DenseIndex::query_block, threads, [&](Range rows) {
    return index.search(vectors, rows, QuerySet::same);
  });
  const auto indices = comm.all_gather_v(std::span<const std::int32_t>(mine.indices));
  const auto weights = comm.all_gather_v(std::span<const float>(mine.weights));
  const std::int64_t k = options.k;
  return {k,
          {indices.begin() + own.first * k, indices.begin() + own.last * k},
          {weights.begin() + own.first * k, weights.begin() + own.last * k}};
}

}  // namespace

CorpusNeighbours find_neighbours(const TokenDataset& corpus, const std::filesystem::path& centred,
                                 const TfidfOptions& tfidf, const NeighbourOptions& options,
                                 Communicator& comm, int threads) {
  const MappedMatrix vectors(centred);
  const std::int64_t documents = vectors.view().rows;
  const Range own = own_documents(documents, comm);
  CorpusNeighbours result;
  result.tfidf = fit_tfidf(corpus, tfidf, comm, threads);
  SparseMatrix mine;
  mine.columns_count = result.tfidf.size();
  run_collectively(comm, [&] {
    for_own_blocks(corpus, comm, [&](Range, std::span<const std::string> texts) {
      mine = stack_rows(std::move(mine), result.tfidf.transform(texts, threads));
    });
  });
  result.rows = gather_rows_of_ranks(mine, comm);
  Neighbours sparse;
  {
    const SparseIndex index(result.rows);
    const bool approximate = options.approximate_above > 0 && documents > options.approximate_above;
    sparse = approximate ? index.approximate(result.rows, result.rows, own, QuerySet::same, options,
                                             threads)
                         : index.exact(result.rows, own, QuerySet::same, options, threads);
  }
  const Neighbours dense = search_dense(vectors.view(), own, options, comm, threads);
  result.own = average_neighbours(dense, sparse, documents);
  return result;
}

}  // namespace gpuhpc
