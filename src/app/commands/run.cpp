#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/label/evaluate.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

namespace {

// Options that a method or preset may have no stage for.
constexpr std::string_view labelling_sections[] = {"scoring.", "teleclass.",  "taxoclass.",
                                                   "tfidf.",   "neighbours.", "pipeline.adapt"};

}  // namespace

// The labelling job: its inputs looked through, its pipeline run, its predictions measured when
// there is gold.
void run_command(CommandContext& c) {
  const Options& o = c.options;
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  const LabelInputs inputs =
      find_inputs(o.shared.input, o.shared.corpus, o.pipeline.to.empty(), c.comm);
  Job job{Pipeline(o.run.dir), o.shared.input.dir, inputs.description, inputs.warnings, {}};
  const fs::path gold = o.eval.gold.empty() ? inputs.gold : fs::path(o.eval.gold);
  Taxonomy taxonomy;
  run_collectively(c.comm, [&] {
    if (!o.eval.predictions.empty())
      throw usage_error("--eval.predictions is for evaluate; run measures its own predictions");
    o.shared.training.train.check(c.set);
    o.shared.training.profile.range();
    const auto pipeline =
        o.pipeline.method == "taxoclass" ? taxoclass_pipeline : teleclass_pipeline;
    job.pipeline = pipeline(o.shared, o.label, inputs, o.run.dir);
    o.label.decode.refuse_unread(c.set);
    job.pipeline.refuse_unread(c.set, labelling_sections);
    taxonomy = inputs.taxonomy.load();
  });
  const bool has_test = inputs.test.is_test || inputs.test.scan.path != inputs.train.scan.path;
  if (!gold.empty() && has_test) {
    std::vector<std::string> told;  // on the root
    on_root(c.comm, [&] {
      told = documents_with_labelled_texts(inputs.train.scan.path, inputs.test.scan.path,
                                           o.shared.corpus, inputs.labelled);
    });
    check_gold(taxonomy, gold, inputs.test.scan, told, c.comm);
    job.evaluate = [&, told] {
      const Measured measured =
          measure_predictions(taxonomy, fs::path(o.run.dir) / "predictions.jsonl", gold, o.eval,
                              c.device.threads, told);
      write_measures(o.run.dir, measured.details, taxonomy);
      return measured.warnings;
    };
  }
  run_job(c, job);
}

}  // namespace gpuhpc
