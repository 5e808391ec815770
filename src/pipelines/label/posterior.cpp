#include "gpuhpc/pipelines/label/posterior.hpp"

#include <algorithm>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/neighbours.hpp"
#include "gpuhpc/pipelines/label/path_model.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// What the passes over the documents share.
struct Pass {
  const StageContext& context;
  const ClassifyOptions& options;
  const TokenDataset& corpus;
  MatrixView centred;  // x' (N,H)
  LexicalEvidence& lexical;
  std::int64_t paths;
  std::int64_t documents() const { return centred.rows; }
  void for_texts(const std::function<void(Range, std::span<const std::string>)>& work) const {
    for_own_blocks(corpus, context.comm, work);
  }
};

// Document frequencies of class-name words, over the whole corpus.
void fit_lexical(const Pass& pass) {
  std::vector<std::int64_t> frequencies(static_cast<std::size_t>(pass.lexical.terms()));
  together(pass.context.comm, [&] {
    pass.for_texts([&](Range, std::span<const std::string> texts) {
      for (const std::string& text : texts) pass.lexical.count(text, frequencies);
    });
  });
  pass.context.comm.all_reduce(std::span<std::int64_t>(frequencies));
  pass.lexical.set_frequencies(frequencies, pass.documents());
}

// One soft refinement: every path vector moves to the documents that the first posterior gives it.
Matrix refine(const Pass& pass, const PathModel& model, double name_votes) {
  FixedSums sums(pass.paths, pass.centred.columns);
  together(pass.context.comm, [&] {
    Matrix posterior(document_block, pass.paths);
    pass.for_texts([&](Range rows, std::span<const std::string> texts) {
      const MutableMatrixView block{posterior.values.data(), rows.size(), pass.paths};
      const MatrixView documents = pass.centred.slice(rows.first, rows.size());
      model.posterior(documents, texts, pass.lexical, block);
      add_soft_sums(block, documents, sums);
    });
  });
  pass.context.comm.all_reduce(sums.words());
  return refined_paths(model.vectors.view(), sums, name_votes);
}

void write_first_posterior(const Pass& pass, const PathModel& model, const fs::path& path) {
  Communicator& comm = pass.context.comm;
  MatrixFileWriter writer(path, comm,
                          {{"values", ElementType::float32, {pass.documents(), pass.paths}}});
  together(comm, [&] {
    Matrix posterior(document_block, pass.paths);
    pass.for_texts([&](Range rows, std::span<const std::string> texts) {
      const MutableMatrixView block{posterior.values.data(), rows.size(), pass.paths};
      model.posterior(pass.centred.slice(rows.first, rows.size()), texts, pass.lexical, block);
      writer.write_rows("values", rows.first, MatrixView(block));
    });
  });
  writer.commit();
}

}  // namespace

std::vector<float> find_hubness(MatrixView centred, MatrixView vectors, Communicator& comm) {
  TopScores top(vectors.rows), merged(vectors.rows);
  const Range own = own_documents(centred.rows, comm);
  Matrix scores(document_block, vectors.rows);
  for (std::int64_t first = own.first; first < own.last; first += document_block) {
    const MutableMatrixView block{scores.values.data(),
                                  std::min(own.last, first + document_block) - first, vectors.rows};
    score_paths(centred.slice(first, block.rows), vectors, block);
    top.add(block);
  }
  merged.merge(comm.all_gather_vector(top.values()));
  return merged.means();
}

void find_posterior(const StageContext& c, const ClassifyOptions& o, const Taxonomy& taxonomy,
                    const fs::path& encoding) {
  const TokenDataset corpus(encoding / "tokens");
  const MappedMatrix centred(encoding / "centred.h5"), classes(encoding / "classes.h5", "centred");
  LexicalEvidence lexical(taxonomy);
  const Pass pass{c, o, corpus, centred.view(), lexical, std::ssize(taxonomy.paths())};
  fit_lexical(pass);
  PathModel model{path_vectors(taxonomy, classes.view()),
                  {},
                  o.scoring.temperature,
                  o.scoring.csls,
                  o.scoring.lexical};
  model.hubness = find_hubness(centred.view(), model.vectors.view(), c.comm);
  if (o.scoring.name_votes > 0) model.vectors = refine(pass, model, o.scoring.name_votes);
  write_first_posterior(pass, model, c.folder / "first_posterior.h5");

  const CorpusNeighbours neighbours = find_neighbours(corpus, encoding / "centred.h5", o.tfidf,
                                                      o.neighbours, c.comm, c.device.threads);
  smooth_posterior(c.folder / "first_posterior.h5", neighbours.own, o.scoring.smoothing_rounds, .5,
                   c.folder / "posterior.h5", c.comm, c.device.threads);
  const SparseMatrix all = gather_rows_of_ranks(neighbours.own, c.comm);
  on_root(c.comm, [&] {
    write_sparse(c.folder / "neighbours.h5", all);
    write_sparse(c.folder / "tfidf_rows.h5", neighbours.rows);
    const std::vector<std::int64_t> terms(neighbours.tfidf.terms().begin(),
                                          neighbours.tfidf.terms().end());
    write_arrays(c.folder / "tfidf.h5", {{"terms", std::span<const std::int64_t>(terms)},
                                         {"idf", std::span<const float>(neighbours.tfidf.idf())}});
    write_arrays(c.folder / "paths.h5", {{"vectors", std::as_const(model.vectors).view()},
                                         {"hubness", std::span<const float>(model.hubness)},
                                         {"idf", lexical.idf()}});
  });
}

}  // namespace gpuhpc
