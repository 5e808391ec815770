#include "gpuhpc/pipelines/label/posterior.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/named_texts.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// What the passes over the documents share.
struct Pass {
  const StageContext& context;
  const TokenDataset& corpus;
  MatrixView centred;  // x' (N,H)
  LexicalEvidence& lexical;
  std::int64_t paths;
  std::int64_t documents() const { return centred.rows; }
};

// Document frequencies of class-name words, over the whole corpus.
void fit_lexical(const Pass& pass) {
  std::vector<std::int64_t> frequencies(static_cast<std::size_t>(pass.lexical.terms()));
  run_collectively(pass.context.comm, [&] {
    for_own_blocks(pass.corpus, pass.context.comm, [&](Range, std::span<const std::string> texts) {
      for (const std::string& text : texts) pass.lexical.count(text, frequencies);
    });
  });
  pass.context.comm.all_reduce(std::span<std::int64_t>(frequencies));
  pass.lexical.set_frequencies(frequencies, pass.documents());
}

// One soft refinement: every path vector moves to the documents that the first posterior gives it.
Matrix refine(const Pass& pass, const PathModel& model, double name_votes) {
  FixedSums sums(pass.paths, pass.centred.columns);
  run_collectively(pass.context.comm, [&] {
    Matrix posterior(document_block, pass.paths);
    for_own_blocks(
        pass.corpus, pass.context.comm, [&](Range rows, std::span<const std::string> texts) {
          const MutableMatrixView block{posterior.values.data(), rows.size(), pass.paths};
          const MatrixView documents = pass.centred.slice(rows.first, rows.size());
          model.posterior(documents, texts, pass.lexical, block);
          add_soft_sums(block, documents, sums);
        });
  });
  pass.context.comm.all_reduce(sums.words());
  return refined_paths(model.vectors.view(), sums, name_votes);
}

// The texts that hold the whole name of one leaf, of the corpus or of documents spread evenly over
// a large one; the same on every rank.
NamedTexts find_named_texts(const Pass& pass, const PathModel& model) {
  constexpr std::int64_t most_scores = std::int64_t{1} << 26;
  Communicator& comm = pass.context.comm;
  const std::int64_t documents = pass.documents(),
                     looked_at = std::min({documents, documents_for_named_texts,
                                           std::max<std::int64_t>(most_scores / pass.paths, 1)});
  NamedTexts own{looked_at, pass.paths, {}, {}};
  run_collectively(comm, [&] {
    std::vector<float> evidence(static_cast<std::size_t>(pass.paths));
    Matrix scores(1, pass.paths);
    for_own_blocks(pass.corpus, comm, [&](Range rows, std::span<const std::string> texts) {
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        if (!evenly_chosen(i, looked_at, documents)) continue;
        pass.lexical.evidence(texts[static_cast<std::size_t>(i - rows.first)], evidence);
        const auto path = named_path(evidence);
        if (!path) continue;
        score_paths(pass.centred.slice(i, 1), model.vectors.view(), scores.view());
        own.scores.insert(own.scores.end(), scores.values.begin(), scores.values.end());
        own.named.push_back(*path);
      }
    });
  });
  return {looked_at, pass.paths, comm.all_gather_v(std::span<const float>(own.scores)),
          comm.all_gather_v(std::span<const std::int64_t>(own.named))};
}

// Of texts that name their class: how high the encoder's vectors alone rank it, and the share of
// hubness that suits them.
void fit_to_named_texts(const Pass& pass, double fit, PathModel& model) {
  const NamedTexts named = find_named_texts(pass, model);
  if (named.size() == 0) return;
  const Log& log = pass.context.log;
  log->info(
      "{} of {} texts hold the whole name of one class; the vectors alone rank it with a mean "
      "reciprocal of {:.4f}",
      named.size(), named.looked_at, mean_reciprocal_rank(named, model.hubness, model.csls));
  if (fit == 0 || model.csls == 0) return;
  const double given = model.csls;
  model.csls = fitted_csls(named, model.hubness, model.temperature, given, fit);
  log->info(
      "the share of a class's hubness that is taken off goes from {:g} to {:.4f} for them "
      "(--scoring.csls-fit 0: it stays)",
      given, model.csls);
}

void write_first_posterior(const Pass& pass, const PathModel& model, const fs::path& path) {
  Communicator& comm = pass.context.comm;
  MatrixFileWriter writer(path, comm,
                          {{"values", ElementType::float32, {pass.documents(), pass.paths}}});
  run_collectively(comm, [&] {
    Matrix posterior(document_block, pass.paths);
    for_own_blocks(pass.corpus, comm, [&](Range rows, std::span<const std::string> texts) {
      const MutableMatrixView block{posterior.values.data(), rows.size(), pass.paths};
      model.posterior(pass.centred.slice(rows.first, rows.size()), texts, pass.lexical, block);
      writer.write_rows("values", rows.first, MatrixView(block));
    });
  });
  writer.commit();
}

// The best path of each document, in TELEClass's format for people and other tools.
void write_best_paths(const PosteriorFiles& out, const Taxonomy& taxonomy,
                      const TokenDataset& documents) {
  const MappedMatrix posterior(out.posterior);
  std::vector<ClassList> lists;
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    const auto row = posterior.view().row(i);
    lists.push_back(taxonomy.paths()[static_cast<std::size_t>(
        std::max_element(row.begin(), row.end()) - row.begin())]);
  }
  write_class_lists(out.refined, documents, lists);
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
  merged.merge(comm.all_gather_v(top.values()));
  return merged.means();
}

void PosteriorStage::run(const StageContext& c, const PosteriorFiles& out) const {
  Taxonomy classes;
  run_collectively(c.comm, [&] { classes = taxonomy.load(); });
  const MappedMatrix centred(encoding.centred), class_rows(encoding.classes, "centred");
  LexicalEvidence lexical(classes);
  const TokenDataset documents(encoding.tokens);
  const Pass pass{c, documents, centred.view(), lexical, std::ssize(classes.paths())};
  fit_lexical(pass);
  PathModel model{path_vectors(classes, class_rows.view()),
                  {},
                  scoring.temperature,
                  scoring.csls,
                  scoring.lexical};
  model.hubness = find_hubness(centred.view(), model.vectors.view(), c.comm);
  fit_to_named_texts(pass, refinement.csls_fit, model);
  if (refinement.name_votes > 0) model.vectors = refine(pass, model, refinement.name_votes);
  write_first_posterior(pass, model, out.first);

  const CorpusNeighbours found =
      find_neighbours(documents, encoding.centred, tfidf, neighbours, c.comm, c.device.threads);
  const SparseMatrix own = average_neighbours(found.dense, found.sparse, documents.size());
  smooth_posterior(out.first, own, smoothing.rounds, .5, out.posterior, c.comm, c.device.threads);
  const SparseMatrix all = gather_rows_of_ranks(own, c.comm);
  on_root(c.comm, [&] {
    write_sparse(out.neighbours, all);
    write_sparse(out.tfidf_rows, found.rows);
    const std::vector<std::int64_t> terms(found.tfidf.terms().begin(), found.tfidf.terms().end());
    write_arrays(out.tfidf, {{"terms", std::span<const std::int64_t>(terms)},
                             {"idf", std::span<const float>(found.tfidf.idf())}});
    write_arrays(out.paths, {{"vectors", std::as_const(model.vectors).view()},
                             {"hubness", std::span<const float>(model.hubness)},
                             {"csls", std::span<const double>(&model.csls, 1)},
                             {"idf", lexical.idf()}});
    write_best_paths(out, classes, documents);
  });
}

}  // namespace gpuhpc
