#include "gpuhpc/pipelines/label/correction.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::vector<std::int64_t> hashes_of(const TokenDataset& corpus,
                                    std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> hashes;
  for (const std::int64_t row : rows) hashes.push_back(text_hash(corpus.text(row)));
  return hashes;
}

// Marginals (n,C) of documents without labels and with them, their posterior (n,K), and which of
// them a person labelled (n).
struct ShownDocuments {
  Matrix posterior, before, after;
  std::vector<char> told;
};

// For the report: the classes whose number of documents changed most; nothing where none did.
Json changes_of(const Taxonomy& taxonomy, const GivenLabels& given, const ShownDocuments& shown,
                const Decoder& without, const Decoder& with) {
  struct Change {
    ClassId label = 0;
    std::int64_t given = 0, before = 0, after = 0;
    std::int64_t size() const { return std::abs(after - before); }
  };
  std::vector<Change> changes(static_cast<std::size_t>(taxonomy.size()));
  for (std::size_t c = 0; c < changes.size(); ++c) changes[c].label = static_cast<ClassId>(c);
  for (const auto& classes : given.classes)
    for (const ClassId c : classes) ++changes[static_cast<std::size_t>(c)].given;
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < shown.before.rows; ++i) {
    const auto posterior = shown.posterior.row(i);
    std::vector<ClassId> first = without.decode(shown.before.row(i), posterior),
                         second = with.decode(shown.after.row(i), posterior,
                                              shown.told[static_cast<std::size_t>(i)] != 0);
    for (const ClassId c : first) ++changes[static_cast<std::size_t>(c)].before;
    for (const ClassId c : second) ++changes[static_cast<std::size_t>(c)].after;
    std::ranges::sort(first);
    std::ranges::sort(second);
    changed += first != second;
  }
  std::ranges::stable_sort(changes, std::ranges::greater(), &Change::size);
  const ClassWords words(taxonomy);
  Json rows = Json::array();
  for (const Change& c : std::span(changes).first(std::min<std::size_t>(changes.size(), 20)))
    if (c.size() > 0) rows.push_back({words.word(c.label), c.given, c.before, c.after});
  if (rows.empty()) return rows;
  return Json::array(
      {{{"title", "What the labelled documents changed"},
        {"about",
         fmt::format("Of {} documents (at most 1,000 of the corpus, evenly spread) {} have "
                     "other classes than without labels. The classes whose number of "
                     "documents changed most:",
                     shown.before.rows, changed)},
        {"columns", {"class", "labelled documents", "documents before", "documents after"}},
        {"rows", rows}}});
}

}  // namespace

void CorrectionStage::run(const StageContext& c, const CorrectedFiles& out) const {
  on_root(c.comm, [&] {
    ClassifierSettings settings = read_settings(trained.model);
    const Taxonomy classes = load_taxonomy(trained.model);
    const GivenLabels given = read_given_labels(labels.path, classes);
    const TokenDataset corpus(encoding.tokens);
    const std::vector<std::int64_t> rows = rows_of_labels(given, corpus, labels.path);
    const fs::path centred = trained.model / "gpuhpc" / "centred.h5";
    const auto leafless = std::ranges::count_if(given.classes, [&](const std::vector<ClassId>& of) {
      return std::ranges::none_of(of, [&](ClassId k) { return classes.children(k).empty(); });
    });
    if (leafless > 0)
      c.log->warn(
          "{} of {} labelled documents name no leaf: they say that none of the classes below fits "
          "them",
          leafless, given.ids.size());
    const Matrix truth = truth_of(given, classes.size()), vectors = rows_of_file(centred, rows),
                 posterior = posterior_of(trained.model, rows);
    Matrix probabilities = marginals_of(posterior, classes);
    settings.expected_leaves = decode.expected_leaves;
    settings.softmax_leaves = decode.leaves();  // labels set their L when the posterior is made
    if (decode.expected_leaves == 0) {
      const Matrix of_all = rows_of_file(centred, spread_rows(corpus.size()));
      settings.expected_leaves = leaves_for(std::as_const(probabilities).view(), truth.view(),
                                            shares_of_nearest(of_all.view(), vectors.view()));
    }
    to_probabilities(probabilities.view(), settings.expected_leaves, settings.softmax_leaves);
    const FittedCorrection fitted = fit_correction(
        text_and_posterior(vectors.view(), posterior.view()), std::as_const(probabilities).view(),
        truth.view(), settings.expected_leaves, settings.softmax_leaves);
    settings.lift = fitted.correction.lift;
    c.log->info(
        "{} labelled documents, {:.1f} classes each, {:.2f} leaves expected{}; error of each by "
        "what the others teach: {:.4f}, before {:.4f}{}",
        truth.rows, std::accumulate(truth.values.begin(), truth.values.end(), 0.) / truth.rows,
        settings.expected_leaves, decode.expected_leaves > 0 ? " as given" : "", fitted.after,
        fitted.before,
        fitted.after >= fitted.before ? ": nothing is corrected"
        : settings.lift > 0 ? fmt::format("; scores above 1/4 lifted by {:.3f}", settings.lift)
                            : "");
    if (decode.expected_leaves == 0 && settings.expected_leaves >= 2)
      c.log->info(
          "the stages before took {} leaves for expected; --decode.expected-leaves {:.1f} runs "
          "them again for as many as the labelled documents have",
          settings.softmax_leaves, settings.expected_leaves);
    const std::vector<std::int64_t> hashes = hashes_of(corpus, rows);
    for (std::size_t i = 0; i < hashes.size(); ++i)
      if (const auto first =
              static_cast<std::size_t>(std::ranges::find(hashes, hashes[i]) - hashes.begin());
          given.classes[first] != given.classes[i])
        c.log->warn(
            "{}: documents `{}` and `{}` have one text and other classes; the text keeps "
            "those of the first",
            labels.path.string(), given.ids[first], given.ids[i]);
    if (given.unfilled > 0)
      c.log->warn("{}: {} rows without classes are left out", labels.path.string(), given.unfilled);
    settings.corrected = true;
    const ModelCorrection correction{fitted.correction, truth, hashes};
    const std::vector<std::int64_t> spread = spread_rows(corpus.size(), 1000);
    ShownDocuments shown{posterior_of(trained.model, spread), {}, {}, {}};
    shown.before = marginals_of(shown.posterior, classes);
    shown.after = shown.before;
    shown.told.resize(spread.size());
    correction.apply(classes, rows_of_file(centred, spread).view(), shown.posterior.view(),
                     hashes_of(corpus, spread), shown.after.view(), shown.told);
    write_json(out.samples, changes_of(classes, given, shown, Decoder(classes, decode),
                                       Decoder(classes, settings.decoding_of_scores(decode))));
    publish_model(trained.model, out.model, settings, &correction);
  });
}

std::optional<CorrectedFiles> correct_by_labels(Pipeline& pipeline, const LabelsFile& labels,
                                                const TrainedFiles& trained,
                                                const EncodingFiles& encoding,
                                                const DecodeOptions& decode, bool over_paths) {
  if (labels.path.empty()) return std::nullopt;
  if (!over_paths)
    throw usage_error(
        "--input.labels {}: this method's scores {}; take the preset `recommended` or `fixed`",
        labels.path.string(), not_correctable);
  return pipeline.add("correction", CorrectionStage{trained, encoding, labels, decode});
}

}  // namespace gpuhpc
