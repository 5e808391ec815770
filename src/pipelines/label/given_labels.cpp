#include "gpuhpc/pipelines/label/given_labels.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/host_matrices.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

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
    columns.rows = {.values = {"id", "labels"}};  // as values: a spreadsheet keeps cleared rows
    CorpusReader reader(path, columns);
    for (Document row; reader.next(row);) {
      if (trimmed(row.fields[0]).empty() && !trimmed(row.fields[1]).empty())
        throw input_error("{}: labels without the id of a document; give it in the column `id`",
                          reader.where());
      take(reader.where(), row.fields[0], row.fields[1]);
    }
    return;
  }
  for_each_label_row(path, take);
}

// A class brings its parents, where a person named none of them.
std::vector<ClassId> with_parents(const Taxonomy& taxonomy, std::vector<ClassId> classes) {
  const std::vector<ClassId> given = classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto parents = taxonomy.parents(classes[i]);
    const auto named = [&](ClassId c) { return std::ranges::count(given, c) > 0; };
    if (std::ranges::any_of(parents, named)) continue;
    for (const ClassId c : parents)
      if (std::ranges::count(classes, c) == 0) classes.push_back(c);
  }
  std::ranges::sort(classes);
  return classes;
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

Matrix posterior_of(const fs::path& model, std::span<const std::int64_t> rows) {
  Matrix posterior = rows_of_file(model / "gpuhpc" / "posterior.h5", rows);
  if (const fs::path student = model / "gpuhpc" / "student_posterior.h5"; fs::exists(student))
    average_into(posterior.view(), rows_of_file(student, rows).view());
  return posterior;
}

Matrix marginals_of(const Matrix& posterior, const Taxonomy& taxonomy) {
  Matrix marginals(posterior.rows, taxonomy.size());
  path_marginals(taxonomy, posterior.view(), marginals.view());
  return marginals;
}

Matrix truth_of(const GivenLabels& labels, std::int64_t classes) {
  Matrix truth(std::ssize(labels.ids), classes);
  for (std::int64_t i = 0; i < truth.rows; ++i)
    for (const ClassId c : labels.classes[static_cast<std::size_t>(i)])
      truth.row(i)[static_cast<std::size_t>(c)] = 1;
  return truth;
}

Error unknown_document(const fs::path& path, const std::string& id) {
  return input_error(
      "{}: document `{}` is not in the training corpus; write ids as the corpus does, and label "
      "documents of it",
      path.string(), id);
}

bool holds_labels(const fs::path& path) {
  bool filled = false;
  try {
    for_each_row(path, [&](const std::string&, const std::string&, std::string_view text) {
      filled |= !trimmed(text).empty();
    });
  } catch (const Error&) {
    return true;  // what cannot be read may be somebody's work
  }
  return filled;
}

std::vector<std::string> documents_with_labelled_texts(const fs::path& train, const fs::path& test,
                                                       const CorpusOptions& options,
                                                       std::span<const std::string> labelled) {
  std::vector<std::string> documents;
  if (labelled.empty()) return documents;
  const std::unordered_set<std::string_view> known(labelled.begin(), labelled.end());
  std::unordered_set<std::int64_t> hashes;
  const auto for_each = [&](const fs::path& corpus, const auto& use) {
    CorpusReader reader(corpus, options);
    for (Document document; reader.next(document);) use(document);
  };
  for_each(train, [&](const Document& document) {
    if (known.contains(document.id)) hashes.insert(text_hash(document.text));
  });
  for_each(test, [&](const Document& document) {
    if (hashes.contains(text_hash(document.text))) documents.push_back(document.id);
  });
  return documents;
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
    labels.classes.push_back(with_parents(taxonomy, parse_label_list(text, words, where, true)));
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
                                double expected_leaves, double softmax_leaves) {
  Matrix alike(documents.rows, documents.rows);
  similarities(documents.view(), documents.view(), alike.view());
  const at::Tensor residuals = host_view(truth).to(at::kDouble) - host_view(probabilities);
  const auto [values, vectors] =
      at::linalg_eigh(host_view(std::as_const(alike).view()).to(at::kDouble));
  const at::Tensor turned = vectors.t().mm(residuals);
  Matrix gains(probabilities.rows, probabilities.columns);
  for (std::int64_t i = 0; i < gains.rows; ++i)
    std::ranges::transform(probabilities.row(i), gains.row(i).begin(), gain);
  constexpr double as_good = 1.01;  // less says nothing, and what people label has little noise
  FittedCorrection best;
  best.noise = std::numeric_limits<double>::infinity();
  best.before = best.after = mean_square(residuals);
  double least = best.before;
  at::Tensor weights = at::zeros_like(residuals);
  for (const double noise : {100., 30., 10., 3., 1., .3, .1, .03}) {
    const at::Tensor inverse = (values + noise).reciprocal();
    const at::Tensor solved = vectors.mm(turned * inverse.unsqueeze(1));
    // Each residual less what the others alone predict (Rasmussen and Williams, equation 5.12).
    const at::Tensor unexplained = solved / vectors.square().mv(inverse).unsqueeze(1);
    const double left =
        mean_square(residuals - host_view(std::as_const(gains).view()) * (residuals - unexplained));
    least = std::min(least, left);
    if (left < best.before && left <= as_good * least)
      best.after = left, best.noise = noise, weights = solved;
  }
  best.correction = {documents, to_matrix(weights.t()), expected_leaves, softmax_leaves};
  // The more documents move scores, the more those in the middle are held back. Fitted to new
  // documents; labelled ones ask for none, since the student has learnt from them.
  if (best.after < best.before)
    best.correction.lift = std::max(0., std::log(static_cast<double>(documents.rows) / 100) / 4);
  return best;
}

}  // namespace gpuhpc
