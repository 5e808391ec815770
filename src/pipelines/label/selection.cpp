#include "gpuhpc/pipelines/label/selection.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Labelled rows first, then others, evenly spread.
std::vector<std::int64_t> pool_of(std::int64_t documents, std::vector<std::int64_t> rows) {
  const std::unordered_set<std::int64_t> known(rows.begin(), rows.end());
  for (const std::int64_t row : spread_rows(documents))
    if (!known.contains(row)) rows.push_back(row);
  return rows;
}

// What is not known about each document: the variance of its labels.
std::vector<double> uncertainty_of(const Decoder& decoder, const Matrix& marginals) {
  std::vector<double> uncertainty;
  for (std::int64_t i = 0; i < marginals.rows; ++i) {
    double sum = 0;
    for (const float p : decoder.probabilities(marginals.row(i)))
      sum += static_cast<double>(p) * (1 - p);
    uncertainty.push_back(sum);
  }
  return uncertainty;
}

// A spreadsheet computes what begins so; texts come from anywhere. Nobody reads them back.
std::string plain_cell(std::string text) {
  const bool formula =
      !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
  return formula ? "'" + std::move(text) : text;
}

}  // namespace

void declare(config::Section& section, SelectOptions& o) {
  section.option("documents", o.documents, "documents that select writes for a person to label")
      .range(1, 100000)
      .common();
}

std::string documents_to_label(const fs::path& model, const fs::path& tokens,
                               const fs::path& labels, std::int64_t count) {
  const ClassifierSettings settings = read_settings(model);
  if (settings.kind != "paths")
    throw input_error("{}: its scores {}; run with the preset `recommended` or `fixed`",
                      model.string(), not_correctable);
  const Taxonomy taxonomy = load_taxonomy(model);
  const TokenDataset corpus(tokens);
  if (settings.corrected && labels.empty())
    throw usage_error(
        "{}: this run had labelled documents; name them here, too, with --input.labels, so that "
        "they are kept and not asked for again",
        model.string());
  GivenLabels given;
  if (!labels.empty()) given = read_given_labels(labels, taxonomy);
  const std::vector<std::int64_t> known = rows_of_labels(given, corpus, labels);
  const std::vector<std::int64_t> pool = pool_of(corpus.size(), known);
  const Matrix posterior = posterior_of(model, pool);
  const Matrix vectors = rows_of_file(model / "gpuhpc" / "centred.h5", pool);
  Matrix marginals = marginals_of(posterior, taxonomy);
  if (settings.corrected)
    load_correction(model, settings, taxonomy.size(), vectors.columns + posterior.columns)
        .scores.apply(taxonomy, vectors.view(), posterior.view(), marginals.view());
  const Decoder decoder(
      taxonomy, settings.decoding_of_scores(settings.labelling.value_or(Labelling{}).decode));
  const std::vector<std::int64_t> chosen =
      select_documents(text_and_posterior(vectors.view(), posterior.view()).view(),
                       uncertainty_of(decoder, marginals), std::ssize(known), count);
  const ClassWords words(taxonomy);
  std::string csv = "id,labels,suggested,text\n";
  const auto add = [&](std::int64_t row, const ClassList& of_person, const ClassList& of_model) {
    csv += csv_field(std::string(corpus.id(row)));
    for (const ClassList* classes : {&of_person, &of_model}) {
      std::vector<std::string> names;
      for (const ClassId c : *classes) names.push_back(words.word(c));
      csv += "," + csv_field(fmt::format("{}", fmt::join(names, ",")));
    }
    csv += "," + csv_field(plain_cell(std::string(corpus.text(row)))) + "\n";
  };
  // Those that are labelled stand first: the next run is given this file alone.
  for (std::size_t i = 0; i < known.size(); ++i) add(known[i], given.classes[i], {});
  for (const std::int64_t i : chosen)
    add(pool[static_cast<std::size_t>(i)], {},
        decoder.decode(std::as_const(marginals).row(i), posterior.row(i)));
  return csv;
}

}  // namespace gpuhpc
