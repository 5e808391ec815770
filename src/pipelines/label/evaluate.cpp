#include "gpuhpc/pipelines/label/evaluate.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/gold.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

void leave_out(GoldLabels& gold, std::span<const std::string> ids) {
  const std::unordered_set<std::string_view> known(ids.begin(), ids.end());
  GoldLabels rest;
  rest.path = gold.path;
  for (std::size_t i = 0; i < gold.ids.size(); ++i)
    if (!known.contains(gold.ids[i])) {
      rest.ids.push_back(gold.ids[i]);
      rest.classes.push_back(gold.classes[i]);
    }
  if (rest.ids.empty() && !ids.empty())
    throw input_error(
        "{}: the classes of all its documents were given (--input.labels): nothing is left to "
        "measure",
        gold.path.string());
  gold = std::move(rest);
}

// Of gold that names classes without their ancestors, which predictions have: they count as wrong.
std::int64_t without_ancestors(const Taxonomy& taxonomy, const GoldLabels& gold) {
  return std::ranges::count_if(gold.classes, [&](const std::vector<ClassId>& classes) {
    return std::ranges::any_of(classes, [&](ClassId c) {
      const auto& parents = taxonomy.parents(c);
      return !parents.empty() && std::ranges::none_of(parents, [&](ClassId parent) {
        return std::ranges::binary_search(classes, parent);
      });
    });
  });
}

}  // namespace

void check_gold(const Taxonomy& taxonomy, const std::filesystem::path& gold,
                const CorpusScan& texts, std::span<const std::string> left_out,
                Communicator& comm) {
  on_root(comm, [&] {
    GoldLabels measured = read_gold(gold, taxonomy);
    leave_out(measured, left_out);
    const std::unordered_set<std::string_view> ids(measured.ids.begin(), measured.ids.end());
    CorpusReader reader(texts.path, texts.options);
    for (Document document; reader.next(document);)
      if (ids.contains(document.id)) return;
    throw input_error("{}: none of its {} documents is in {}; check that both are of one data set",
                      gold.string(), measured.ids.size(), texts.path.string());
  });
}

Measured measure_predictions(const Taxonomy& taxonomy, const std::filesystem::path& predictions,
                             const std::filesystem::path& gold, const EvalOptions& options,
                             int threads, std::span<const std::string> left_out) {
  GoldLabels measured = read_gold(gold, taxonomy);
  const std::size_t before = measured.ids.size();
  leave_out(measured, left_out);
  const auto given = static_cast<std::int64_t>(before - measured.ids.size());
  LabelledDocuments documents = pair_with_gold(measured, read_predictions(predictions, taxonomy));
  documents.without_gold = std::max<std::int64_t>(0, documents.without_gold - given);
  std::vector<std::string> warnings = uncovered(documents, gold);
  if (const std::int64_t bare = without_ancestors(taxonomy, measured);
      2 * bare > std::ssize(measured.ids))
    warnings.push_back(
        fmt::format("{}: in {} of {} documents a class stands without any of its parents, which "
                    "predictions name as well: all but the hierarchical measures count the parents "
                    "as wrong.",
                    gold.string(), bare, measured.ids.size()));
  if (given > 0)
    warnings.insert(
        warnings.begin(),
        fmt::format("{} documents whose classes were given (--input.labels) are not measured.",
                    given));
  return {evaluate_in_detail(taxonomy, documents, options, threads), warnings};
}

void write_measures(const std::filesystem::path& folder, const EvaluationDetails& details,
                    const Taxonomy& taxonomy) {
  create_folder(folder);
  write_evaluation(folder / "evaluation.json", details, taxonomy);
  write_metrics(folder / "metrics.json", details.evaluation);
}

}  // namespace gpuhpc
