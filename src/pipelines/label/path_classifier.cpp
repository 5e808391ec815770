// The classifier of the quality recipe: teacher and student posteriors of a new document, each
// smoothed with its neighbours in the training corpus, averaged. TaxoClass's ensemble is the same
// with its head over classes as the student.
#include <optional>
#include <unordered_map>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/correction.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/classifier.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

TfidfModel load_tfidf(const fs::path& path, const TfidfOptions& options) {
  const Hdf5File file(path);
  const auto terms = file.dataset<std::int64_t>("terms");
  file.expect("idf", {std::ssize(terms)});
  return TfidfModel(options, {terms.begin(), terms.end()}, copy(file.dataset<float>("idf")));
}

using RowsByHash = std::unordered_map<std::int64_t, std::int64_t>;  // hash of a text -> its row

RowsByHash rows_by_hash(std::span<const std::int64_t> hashes) {
  RowsByHash rows;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    rows.emplace(hashes[i], static_cast<std::int64_t>(i));
  return rows;
}

SparseMatrix load_rows(const fs::path& path, std::int64_t rows, std::int64_t terms) {
  SparseMatrix matrix = read_sparse(path);
  if (matrix.rows() != rows || matrix.columns_count != terms)
    throw input_error("{}: it is {} x {}, {} x {} was expected; train the model again",
                      path.string(), matrix.rows(), matrix.columns_count, rows, terms);
  return matrix;
}

class PathPredictor final : public Classifier {
 public:
  PathPredictor(const fs::path& folder, Taxonomy taxonomy, const ClassifierSettings& settings,
                int threads)
      : Classifier(std::move(taxonomy)),
        settings_(settings),
        threads_(threads),
        data_(folder / "gpuhpc"),
        lexical_(this->taxonomy()),
        documents_(data_ / "centred.h5"),
        posterior_(data_ / "posterior.h5"),
        tfidf_(load_tfidf(data_ / "tfidf.h5", settings.scoring.tfidf)),
        index_(load_rows(data_ / "tfidf_rows.h5", documents_.view().rows, tfidf_.size())) {
    const std::int64_t documents = documents_.view().rows, width = documents_.view().columns,
                       classes = this->taxonomy().size(),
                       paths = std::ssize(this->taxonomy().paths());
    posterior_.file().expect("values", {documents, paths});
    load_teacher(paths, width);
    if (settings.transductive) load_known_texts(documents);
    if (settings.corrected) correction_ = load_correction(folder, settings, classes, width + paths);
    if (!settings.student) return;
    if (settings.classes) {
      const Hdf5File head(data_ / "head.h5");
      head.expect("class_embeddings", {classes, width});
      head.expect("bias", {classes});
      student_ =
          leaf_odds(this->taxonomy(), head.matrix("class_embeddings"), head.dataset<float>("bias"));
    } else {
      student_ = {read_matrix(data_ / "student_paths.h5", "values", paths, width), teacher_.hubness,
                  teacher_.temperature, teacher_.csls, 0};
    }
    student_posterior_.emplace(data_ / "student_posterior.h5");
    student_posterior_->file().expect("values", {documents, paths});
  }

  std::int64_t width() const override { return documents_.view().columns; }
  ClassScores score(std::span<const std::string> texts, std::vector<Matrix> vectors,
                    Communicator& comm) const override {
    const std::int64_t rows = std::ssize(texts);
    ClassScores scores{Matrix(rows, taxonomy().size()), Matrix(rows, teacher_.vectors.rows), {}};
    run_collectively(comm, [&] {
      for (Matrix& matrix : vectors) centre_rows(matrix.view(), common_);
      if (vectors.empty())
        vectors.push_back(recall_texts(texts, scores.posterior.view()));
      else
        score_texts(texts, vectors, scores.posterior.view());
      path_marginals(taxonomy(), std::as_const(scores.posterior).view(), scores.marginals.view());
      if (settings_.corrected) correct(texts, vectors.front(), scores);
    });
    return scores;
  }

 private:
  void load_teacher(std::int64_t paths, std::int64_t width) {
    const Hdf5File file(data_ / "paths.h5"), classes(data_ / "classes.h5");
    file.expect("vectors", {paths, width});
    file.expect("hubness", {paths});
    file.expect("idf", {lexical_.terms()});
    classes.expect("common_part", {width});
    const ScoringOptions& scores = settings_.scoring.scores;
    teacher_ = {Matrix(file.matrix("vectors")), copy(file.dataset<float>("hubness")),
                scores.temperature,
                file.has("csls") ? file.dataset<double>("csls")[0] : scores.csls,  // none: as given
                scores.lexical};
    lexical_.set_idf(file.dataset<float>("idf"));
    common_ = copy(classes.dataset<float>("common_part"));
  }

  void load_known_texts(std::int64_t documents) {
    const Hdf5File file(data_ / "text_hashes.h5");
    file.expect("hashes", {documents});
    row_of_text_ = rows_by_hash(file.dataset<std::int64_t>("hashes"));
  }

  void correct(std::span<const std::string> texts, const Matrix& teacher,
               ClassScores& scores) const {
    const MutableMatrixView marginals = scores.marginals.view();
    const MatrixView posterior = std::as_const(scores.posterior).view();
    scores.told.resize(texts.size());
    std::vector<std::int64_t> hashes;
    for (const std::string& text : texts) hashes.push_back(text_hash(text));
    parallel_for(0, block_count(marginals.rows, neighbour_block), threads_,
                 [&](std::int64_t i, int) {
                   const Range block = block_items(i, marginals.rows, neighbour_block);
                   const auto first = static_cast<std::size_t>(block.first),
                              size = static_cast<std::size_t>(block.size());
                   correction_.apply(taxonomy(), teacher.view().slice(block.first, block.size()),
                                     posterior.slice(block.first, block.size()),
                                     std::span(hashes).subspan(first, size),
                                     marginals.slice(block.first, block.size()),
                                     std::span(scores.told).subspan(first, size));
                 });
  }

  bool smoothing() const { return settings_.scoring.smoothing.rounds > 0; }

  // Of texts that may be new. `vectors`: x' by the teacher and, where there is one, the student.
  void score_texts(std::span<const std::string> texts, const std::vector<Matrix>& vectors,
                   MutableMatrixView posterior) const {
    const std::int64_t rows = posterior.rows;
    // of all rows at once: the search has threads of its own
    const Neighbours dense =
        smoothing() ? dense_neighbours(vectors.front().view(), documents_.view(), {0, rows},
                                       QuerySet::other, settings_.scoring.neighbours)
                    : Neighbours();
    parallel_for(0, block_count(rows, neighbour_block), threads_, [&](std::int64_t i, int) {
      const Range block = block_items(i, rows, neighbour_block);
      score_block(texts.subspan(static_cast<std::size_t>(block.first),
                                static_cast<std::size_t>(block.size())),
                  vectors, dense, block, posterior.slice(block.first, block.size()));
    });
  }

  void score_block(std::span<const std::string> texts, const std::vector<Matrix>& vectors,
                   const Neighbours& dense, Range rows, MutableMatrixView posterior) const {
    const SparseMatrix neighbours =
        smoothing() ? with_sparse(texts, rows_of(dense, rows)) : SparseMatrix();
    one_posterior(teacher_, vectors[0].view().slice(rows.first, rows.size()), texts, neighbours,
                  posterior_.view(), posterior);
    if (settings_.student) {
      Matrix second(rows.size(), posterior.columns);
      one_posterior(student_, vectors[1].view().slice(rows.first, rows.size()), texts, neighbours,
                    student_posterior_->view(), second.view());
      average_into(posterior, second.view());
    }
    for (std::int64_t i = 0; i < rows.size() && !row_of_text_.empty(); ++i)
      if (const auto known = row_of_text_.find(text_hash(texts[static_cast<std::size_t>(i)]));
          known != row_of_text_.end())
        copy_posterior(known->second, posterior.slice(i, 1));
  }

  // Of texts of the corpus. Returns their x' by the teacher.
  Matrix recall_texts(std::span<const std::string> texts, MutableMatrixView posterior) const {
    Matrix vectors(posterior.rows, width());
    for (std::int64_t i = 0; i < posterior.rows; ++i) {
      const auto known = row_of_text_.find(text_hash(texts[static_cast<std::size_t>(i)]));
      if (known == row_of_text_.end())
        throw internal_error("text {} was to be one of the training corpus", i);
      std::ranges::copy(documents_.view().row(known->second), vectors.row(i).begin());
      copy_posterior(known->second, posterior.slice(i, 1));
    }
    return vectors;
  }

  // Quality recipe, step 8: with no training corpus a document's posterior is F itself.
  void copy_posterior(std::int64_t document, MutableMatrixView posterior) const {
    std::ranges::copy(posterior_.view().row(document), posterior.row(0).begin());
    if (settings_.student) average_into(posterior, student_posterior_->view().slice(document, 1));
  }

  void one_posterior(const PathModel& model, MatrixView documents,
                     std::span<const std::string> texts, const SparseMatrix& neighbours,
                     MatrixView training, MutableMatrixView posterior) const {
    if (!smoothing()) {
      model.posterior(documents, texts, lexical_, posterior);
      return;
    }
    Matrix own(posterior.rows, posterior.columns);
    model.posterior(documents, texts, lexical_, own.view());
    smooth_rows(std::as_const(own).view(), neighbours, training, settings_.smoothing_keep,
                posterior);
  }

  static Neighbours rows_of(const Neighbours& all, Range rows) {
    const std::int64_t first = rows.first * all.k, last = rows.last * all.k;
    return {all.k,
            {all.indices.begin() + first, all.indices.begin() + last},
            {all.weights.begin() + first, all.weights.begin() + last}};
  }

  // The dense neighbours of these texts averaged with their sparse ones.
  SparseMatrix with_sparse(std::span<const std::string> texts, const Neighbours& dense) const {
    const SparseMatrix queries = tfidf_.transform(texts);
    const Neighbours sparse =
        index_.exact(queries, {0, dense.rows()}, QuerySet::other, settings_.scoring.neighbours);
    return average_neighbours(dense, sparse, documents_.view().rows);
  }

  ClassifierSettings settings_;
  int threads_;
  fs::path data_;
  LexicalEvidence lexical_;
  MappedMatrix documents_, posterior_;  // x' (N,H) and F (N,K) of the training corpus
  std::optional<MappedMatrix> student_posterior_;
  RowsByHash row_of_text_;  // transductive: of training texts
  ModelCorrection correction_;
  TfidfModel tfidf_;
  SparseIndex index_;
  PathModel teacher_, student_;
  std::vector<float> common_;
};

}  // namespace

std::unique_ptr<Classifier> load_path_classifier(const fs::path& model, Taxonomy taxonomy,
                                                 const ClassifierSettings& settings, int threads) {
  return std::make_unique<PathPredictor>(model, std::move(taxonomy), settings, threads);
}

}  // namespace gpuhpc
