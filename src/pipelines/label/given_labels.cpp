#include "gpuhpc/pipelines/label/given_labels.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// One row after the other of a label file, with its place.
void for_each_row(const fs::path& path,
                  const std::function<void(const std::string& where, std::string id,
                                           std::string_view classes)>& take) {
  const fs::path plain = path.extension() == ".gz" ? path.stem() : path.filename();
  if (plain.extension() == ".csv") {
    CorpusOptions columns{.format = "csv"};
    columns.rows = {.texts = {"id"}, .values = {"labels"}, .section = "input"};
    CorpusReader reader(path, columns);
    for (Document row; reader.next(row);) take(reader.where(), row.fields[0], row.fields[1]);
    return;
  }
  for_each_label_row(path, take);
}

double mean_square(const at::Tensor& errors) { return errors.square().mean().item<double>(); }

}  // namespace

std::vector<std::int64_t> rows_of_labels(const GivenLabels& labels, const TokenDataset& corpus,
                                         const fs::path& path) {
  std::unordered_map<std::string_view, std::int64_t> place;
  for (std::int64_t i = 0; i < corpus.size(); ++i) place.emplace(corpus.id(i), i);
  std::vector<std::int64_t> rows;
  for (const std::string& id : labels.ids) {
    const auto found = place.find(id);
    if (found == place.end()) throw unknown_document(path, id);
    rows.push_back(found->second);
  }
  return rows;
}

std::vector<std::int64_t> spread_rows(std::int64_t rows, std::int64_t most) {
  const std::int64_t count = std::min(rows, most);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * rows / count);
  return chosen;
}

Matrix rows_of_file(const fs::path& file, std::span<const std::int64_t> rows) {
  const MappedMatrix all(file);
  Matrix chosen(std::ssize(rows), all.view().columns);
  for (std::int64_t i = 0; i < chosen.rows; ++i)
    std::ranges::copy(all.view().row(rows[static_cast<std::size_t>(i)]), chosen.row(i).begin());
  return chosen;
}

Matrix marginals_of(const fs::path& model, std::span<const std::int64_t> rows,
                    const Taxonomy& taxonomy) {
  Matrix posterior = rows_of_file(model / "gpuhpc" / "posterior.h5", rows);
  if (const fs::path student = model / "gpuhpc" / "student_posterior.h5"; fs::exists(student))
    average_into(posterior.view(), rows_of_file(student, rows).view());
  Matrix marginals(posterior.rows, taxonomy.size());
  path_marginals(taxonomy, std::as_const(posterior).view(), marginals.view());
  return marginals;
}

Matrix memberships_of(const Taxonomy& taxonomy, MatrixView marginals, double expected_leaves) {
  Matrix memberships(marginals.rows, marginals.columns);
  const Decoder decoder(taxonomy, {.expected_leaves = expected_leaves});
  for (std::int64_t i = 0; i < marginals.rows; ++i)
    std::ranges::copy(decoder.probabilities(marginals.row(i)), memberships.row(i).begin());
  return memberships;
}

Error unknown_document(const fs::path& path, const std::string& id) {
  return input_error(
      "{}: document `{}` is not in the training corpus; write ids as the corpus does, and label "
      "documents of it",
      path.string(), id);
}

GivenLabels read_given_labels(const fs::path& path, const Taxonomy& taxonomy) {
  const ClassWords words(taxonomy);
  GivenLabels labels;
  std::unordered_set<std::string> seen;
  for_each_row(path, [&](const std::string& where, std::string id, std::string_view text) {
    if (trimmed(text).empty()) {
      ++labels.unfilled;
      return;
    }
    if (!seen.insert(id).second)
      throw input_error("{}: document `{}` is labelled twice; keep one row", where, id);
    labels.classes.push_back(taxonomy.with_ancestors(parse_label_list(text, words, where, true)));
    labels.ids.push_back(std::move(id));
  });
  if (labels.ids.empty())
    throw input_error(
        "{}: no document is labelled in it; fill in the classes of some, or leave --input.labels "
        "out",
        path.string());
  return labels;
}

FittedCorrection fit_correction(const Matrix& documents, MatrixView probabilities, MatrixView truth,
                                double expected_leaves) {
  Matrix alike(documents.rows, documents.rows);
  similarities(documents.view(), documents.view(), alike.view());
  const at::Tensor residuals = host_view(truth).to(at::kDouble) - host_view(probabilities);
  const auto [values, vectors] =
      at::linalg_eigh(host_view(std::as_const(alike).view()).to(at::kDouble));
  const at::Tensor turned = vectors.t().mm(residuals);
  FittedCorrection best;
  best.noise = std::numeric_limits<double>::infinity();
  best.before = best.after = mean_square(residuals);
  at::Tensor weights = at::zeros_like(residuals);
  for (const double noise : {100., 30., 10., 3., 1., .3, .1, .03}) {
    const at::Tensor inverse = (values + noise).reciprocal();
    const at::Tensor solved = vectors.mm(turned * inverse.unsqueeze(1));
    // What is left of each residual when the others alone predict it (Rasmussen and Williams,
    // equation 5.12).
    const double left = mean_square(solved / vectors.square().mv(inverse).unsqueeze(1));
    if (left < best.after) best.after = left, best.noise = noise, weights = solved;
  }
  best.correction = {documents, to_matrix(weights.t()), expected_leaves};
  return best;
}

}  // namespace gpuhpc
