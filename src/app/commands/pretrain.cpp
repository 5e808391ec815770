#include "gpuhpc/pipelines/pretrain/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {
namespace {

void say_data_path(CommandContext& c, const PretrainPipeline& p) {
  const DataPath path = measure_data_path(p.training, p.tokenizer.folder(), c.comm, c.log);
  if (!c.comm.is_root()) return;
  const double rate = static_cast<double>(path.tokens) / path.seconds;
  fmt::print(
      "data path alone: {} batches of {} tokens, {:.1f}% of them masked, in {:.2f} s: {:.0f} "
      "tokens/s on {} rank{}\na training that computes fewer waits for no data\n",
      path.batches, path.tokens / std::max<std::int64_t>(1, path.batches),
      100 * static_cast<double>(path.masked) / static_cast<double>(path.tokens), path.seconds, rate,
      c.comm.size(), c.comm.size() == 1 ? "" : "s");
}

}  // namespace

// Texts in, a masked-language model out.
void pretrain_command(CommandContext& c) {
  const Options& o = c.options;
  const NewModelOptions& start = o.pretrain.model;
  run_collectively(c.comm, [&] {
    if (!start.is_size() && !std::filesystem::exists(start.model))
      throw usage_error("--pretrain.model {}: neither small, medium or large nor a model's folder",
                        start.model);
  });
  const bool learns = o.pretrain.vocabulary.size > 0;
  run_collectively(c.comm, [&] {
    if (learns && !start.is_size())
      throw usage_error(
          "--pretrain.vocabulary: {} has its own; leave it out, or begin with a new model "
          "(--pretrain.model small)",
          start.model);
    // A run's own config.ini gives every option, so only another word than the usual one is
    // refused.
    if (!learns && o.pretrain.vocabulary.tokenizer != VocabularyOptions().tokenizer)
      throw usage_error(
          "--pretrain.tokenizer {}: no vocabulary is learnt; say how many entries it is to have "
          "(--pretrain.vocabulary 30000)",
          o.pretrain.vocabulary.tokenizer);
  });
  if (!learns)
    check_model(start.is_size() ? o.shared.model.encoder : start.model, Manifest::where_there,
                c.comm, c.log);
  const PretrainInputs inputs = find_texts(o.shared.input.dir, o.shared.corpus, c.comm);
  Job job{Pipeline(o.run.dir),
          o.shared.input.dir,
          fmt::format("{} texts in {} files", inputs.documents(), inputs.files.size()),
          {},
          {}};
  std::optional<PretrainPipeline> pretraining;
  run_collectively(c.comm, [&] {
    o.shared.training.train.check(c.set);
    o.shared.training.profile.range();
    pretraining = pretrain_pipeline(o.shared, o.pretrain, inputs, o.run.dir);
    job.pipeline = pretraining->stages;
    if (o.pretrain.data.only) job.to = "tokens";
  });
  run_job(c, job);
  if (o.pretrain.data.only) say_data_path(c, *pretraining);
}

}  // namespace gpuhpc
