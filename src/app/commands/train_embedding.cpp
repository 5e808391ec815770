#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/pipelines/embedding/pipeline.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

namespace {

// A score that no loss reads would be ignored, and unrelated texts be learnt as near ones. A config
// may name what other losses read: that of a run names all.
void check_loss_options(const config::OptionSet& set, const std::vector<PairDataset>& datasets) {
  for (const std::string& name : set.given_on_command_line()) {
    const std::size_t dot = name.rfind('.');
    const std::string section = name.substr(0, dot), key = name.substr(dot + 1);
    const auto reads = [&](const EmbeddingLoss& loss) { return loss.reads(key); };
    bool concerns = false, read = false;
    for (const PairDataset& dataset : datasets)
      if (section == PairFileOptions::section || section == dataset.files.given_in)
        concerns = true, read = read || reads(embedding_loss(dataset.loss.loss));
    if (concerns && !read && std::ranges::any_of(embedding_losses(), reads))
      throw usage_error(
          "--{} {}: no loss that is chosen reads it (--help embedding.loss); leave it out, or "
          "choose one that does",
          name, set.value(name));
  }
}

}  // namespace

// Pairs of texts in, an encoder out whose vectors find what belongs together.
void train_embedding_command(CommandContext& c) {
  const Options& o = c.options;
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  EmbeddingOptions embedding;
  std::vector<PairDataset> datasets;
  run_collectively(c.comm, [&] {
    embedding =
        with_prompts(o.embedding, read_model_folder(o.shared.model.encoder), o.shared.prompt.given);
    datasets = pair_datasets(embedding);
    check_loss_options(c.set, datasets);
  });
  const PairInputs inputs = find_pairs(datasets, embedding.files, o.shared.corpus.format, c.comm);
  std::vector<std::string> files;
  for (const PairDataset& set : datasets) files.push_back(set.files.train);
  Job job{Pipeline(o.run.dir),
          fmt::format("{}", fmt::join(files, ", ")),
          fmt::format("{} rows to learn from, {} to validate, {} to measure", inputs.rows(),
                      inputs.validation_rows(), inputs.test.rows()),
          inputs.warnings,
          {}};
  run_collectively(c.comm, [&] {
    o.shared.training.train.check(c.set, inputs.validation_rows() > 0);
    o.shared.training.profile.range();
    job.pipeline = embedding_pipeline(o.shared, embedding, inputs, o.run.dir);
  });
  run_job(c, job);
}

}  // namespace gpuhpc
