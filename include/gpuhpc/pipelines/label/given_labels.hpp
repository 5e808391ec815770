#pragma once
// Documents of the training corpus whose classes a person knows (--input.labels), and what a model
// made of them before.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/labels/correction.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct GivenLabels {
  std::vector<std::string> ids;  // (n) unique
  // (n) with ancestors (of several parents those that are named, else all), ascending, never empty
  std::vector<std::vector<ClassId>> classes;
  std::int64_t unfilled = 0;  // rows whose column `labels` is empty: not counted
};
// `id<TAB>1,2,3` as gold has it, or what `gpuhpc select` wrote (.csv: columns id and labels). Class
// ids or names. input_error naming file and line.
GivenLabels read_given_labels(const std::filesystem::path& path, const Taxonomy& taxonomy);

// Whether a person has filled in classes in this file, a table of `gpuhpc select` or another.
bool holds_labels(const std::filesystem::path& path);
// Ids of the test texts that are those of labelled documents of the training corpus: a model says
// of them what it was told.
std::vector<std::string> documents_with_labelled_texts(const std::filesystem::path& train,
                                                       const std::filesystem::path& test,
                                                       const CorpusOptions& options,
                                                       std::span<const std::string> labelled);

Matrix truth_of(const GivenLabels& labels, std::int64_t classes);  // (n,C) of 0 and 1

// input_error: a labelled document that the training corpus does not have.
Error unknown_document(const std::filesystem::path& labels, const std::string& id);

struct FittedCorrection {
  LabelCorrection correction;
  double noise = 0;  // of a label, beside a variance of 1; infinite: nothing is corrected
  // Mean squared error of the labelled documents' probabilities, as they were and each corrected by
  // the others.
  double before = 0, after = 0;
};
// documents (n,H+K) text_and_posterior; probabilities of membership (n,C) that know nothing of the
// labels and were made of marginals with these L; truth (n,C) of 0 and 1. The noise is the least
// of a few whose left-out error is no more than a hundredth above the best; the lift is
// ln(n / 100) / 4, and none with fewer than 100 or where nothing is corrected.
FittedCorrection fit_correction(const Matrix& documents, MatrixView probabilities, MatrixView truth,
                                double expected_leaves, double softmax_leaves);

// (n,K) posterior over paths of rows of the corpus: the teacher's and the student's in a model's
// folder, averaged as for a new text. And the (n,C) marginals of a posterior.
Matrix posterior_of(const std::filesystem::path& model, std::span<const std::int64_t> rows);
Matrix marginals_of(const Matrix& posterior, const Taxonomy& taxonomy);
// At most `most` rows of N, evenly spread.
std::vector<std::int64_t> spread_rows(std::int64_t rows, std::int64_t most = 4096);
// Copies of these rows of a file of a model's folder, dataset "values".
Matrix rows_of_file(const std::filesystem::path& file, std::span<const std::int64_t> rows);
// Where these documents are in the corpus; unknown_document for one that it does not have.
std::vector<std::int64_t> rows_of_labels(const GivenLabels& labels, const TokenDataset& corpus,
                                         const std::filesystem::path& path);

}  // namespace gpuhpc
