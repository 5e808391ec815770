#include "gpuhpc/pipelines/label/smoothing.hpp"

#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"

namespace gpuhpc {

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

}  // namespace gpuhpc
