#include "gpuhpc/pipelines/label/smoothing.hpp"

#include <algorithm>
#include <functional>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

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
  if (!approximate) return dense_neighbours(vectors, vectors, own, QuerySet::same, options);
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

SparseMatrix sparse_rows(const SparseMatrix& matrix, std::int64_t first, std::int64_t count) {
  SparseMatrix part;
  part.columns_count = matrix.columns_count;
  const std::int64_t begin = matrix.offsets[static_cast<std::size_t>(first)],
                     end = matrix.offsets[static_cast<std::size_t>(first + count)];
  for (std::int64_t row = first; row < first + count; ++row)
    part.offsets.push_back(matrix.offsets[static_cast<std::size_t>(row) + 1] - begin);
  part.columns.assign(matrix.columns.begin() + begin, matrix.columns.begin() + end);
  part.values.assign(matrix.values.begin() + begin, matrix.values.begin() + end);
  return part;
}

SparseMatrix gather_rows_of_ranks(const SparseMatrix& own, Communicator& comm) {
  std::vector<std::int64_t> lengths;
  for (std::size_t row = 0; row + 1 < own.offsets.size(); ++row)
    lengths.push_back(own.offsets[row + 1] - own.offsets[row]);
  SparseMatrix all;
  all.columns_count = own.columns_count;
  for (const std::int64_t length : comm.all_gather_v(std::span<const std::int64_t>(lengths)))
    all.offsets.push_back(all.offsets.back() + length);
  all.columns = comm.all_gather_v(std::span<const std::int32_t>(own.columns));
  all.values = comm.all_gather_v(std::span<const float>(own.values));
  return all;
}

void write_row_blocks(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns,
                      Communicator& comm, int threads,
                      const std::function<void(Range, MutableMatrixView)>& fill) {
  MatrixFileWriter writer(path, comm, {{"values", ElementType::float32, {rows, columns}}});
  const Range own = own_documents(rows, comm);
  run_collectively(comm, [&] {
    std::vector<Matrix> blocks(static_cast<std::size_t>(threads), Matrix(document_block, columns));
    parallel_for(
        0, block_count(own.size(), document_block), threads, [&](std::int64_t i, int thread) {
          const Range range{own.first + i * document_block,
                            std::min(own.last, own.first + (i + 1) * document_block)};
          const MutableMatrixView values{blocks[static_cast<std::size_t>(thread)].values.data(),
                                         range.size(), columns};
          fill(range, values);
          writer.write_rows("values", range.first, MatrixView(values));
        });
  });
  writer.commit();
}

void smooth_posterior(const std::filesystem::path& posterior, const SparseMatrix& own_neighbours,
                      std::int64_t rounds, double keep, const std::filesystem::path& output,
                      Communicator& comm, int threads) {
  if (rounds == 0) {
    on_root(comm, [&] { gpuhpc::copy_file(posterior, output); });
    return;
  }
  std::filesystem::path before = posterior;
  for (std::int64_t round = 1; round <= rounds; ++round) {
    const std::filesystem::path after =
        output.string() + (round == rounds ? "" : fmt::format(".round{}", round));
    {
      const MappedMatrix own(posterior), all(before);
      const Range mine = own_documents(own.view().rows, comm);
      write_row_blocks(after, own.view().rows, own.view().columns, comm, threads,
                       [&](Range rows, MutableMatrixView values) {
                         smooth_rows(
                             own.view().slice(rows.first, rows.size()),
                             sparse_rows(own_neighbours, rows.first - mine.first, rows.size()),
                             all.view(), keep, values);
                       });
    }
    on_root(comm, [&] {
      if (before != posterior) remove_file(before);
    });
    before = after;
  }
}

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
    const auto common = classes.file().dataset<float>("common_part");
    write_row_blocks(first, documents.size(), columns, c.comm, c.device.threads,
                     [&](Range range, MutableMatrixView scores) {
                       Matrix centred(range.size(), rows.view().columns);
                       std::copy_n(rows.view().row(range.first).data(), centred.values.size(),
                                   centred.values.data());
                       centre_rows(centred.view(), common);
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
  {
    const SparseIndex index(result.rows);
    const bool approximate = options.approximate_above > 0 && documents > options.approximate_above;
    result.sparse = approximate ? index.approximate(result.rows, result.rows, own, QuerySet::same,
                                                    options, threads)
                                : index.exact(result.rows, own, QuerySet::same, options, threads);
  }
  result.dense = search_dense(vectors.view(), own, options, comm, threads);
  return result;
}

}  // namespace gpuhpc
