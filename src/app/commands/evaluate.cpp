#include "gpuhpc/pipelines/label/evaluate.hpp"

#include <unordered_set>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/io/hdf5.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Beside a run's metrics there is no place for those of other predictions.
void refuse_foreign_run(const fs::path& folder, const fs::path& predictions) {
  std::error_code none;
  if (fs::exists(folder / "config.ini") &&
      !fs::equivalent(folder / "predictions.jsonl", predictions, none))
    throw configuration_error(
        "{}: this run has the metrics of its own predictions.jsonl, and {} would replace them; "
        "give another folder with --run.dir, or none to print the metrics alone",
        folder.string(), predictions.string());
  check_output("run.dir", folder / "metrics.json", "{\n  \"example_f1\"");
}

// Documents of the test texts whose labels what made the predictions was told: those of
// --input.labels, or what the model beside the predictions knows by their texts.
std::vector<std::string> documents_told(const Options& o, const InputLayout& layout,
                                        const Taxonomy& taxonomy, const fs::path& run) {
  if (layout.test_corpus.empty()) return {};
  if (const std::string& labels = o.shared.input.labels; !labels.empty())
    return layout.train_corpus.empty()
               ? std::vector<std::string>()
               : documents_with_labelled_texts(layout.train_corpus, layout.test_corpus,
                                               o.shared.corpus,
                                               read_given_labels(labels, taxonomy).ids);
  const fs::path correction = run / "model" / "gpuhpc" / "correction.h5";
  if (!fs::exists(correction)) return {};
  const Hdf5File file(correction);
  const auto hashes = file.dataset<std::int64_t>("hashes");
  const std::unordered_set<std::int64_t> known(hashes.begin(), hashes.end());
  std::vector<std::string> told;
  CorpusReader reader(layout.test_corpus, o.shared.corpus);
  for (Document document; reader.next(document);)
    if (known.contains(text_hash(document.text))) told.push_back(document.id);
  return told;
}

}  // namespace

void evaluate_command(CommandContext& c) {
  on_root(c.comm, [&] {
    const Options& o = c.options;
    const InputLayout layout = resolve_layout(o.shared.input.dir, false);
    const Taxonomy taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
    const fs::path folder = o.run.dir,
                   predictions = o.eval.predictions.empty() ? folder / "predictions.jsonl"
                                                            : fs::path(o.eval.predictions),
                   gold = o.eval.gold.empty() ? layout.test_gold : fs::path(o.eval.gold);
    if (gold.empty())
      throw usage_error("{} has no test/doc2labels.txt; name the gold labels with --eval.gold FILE",
                        o.shared.input.dir);
    const bool kept = c.set.given("run.dir");
    if (kept) refuse_foreign_run(folder, predictions);
    const std::vector<std::string> told =
        documents_told(o, layout, taxonomy, predictions.parent_path());
    const auto [details, warnings] =
        measure_predictions(taxonomy, predictions, gold, o.eval, c.device.threads, told);
    for (const std::string& warning : warnings) c.log->warn("{}", warning);
    if (kept) write_measures(folder, details, taxonomy);
    fmt::print("{}\n{}{}\n", format_metrics(details.evaluation, true),
               format_levels(details.evaluation),
               kept ? "metrics: " + (folder / "metrics.json").string()
                    : "nothing is written; --run.dir FOLDER keeps metrics.json");
  });
}

}  // namespace gpuhpc
