#include "gpuhpc/pipelines/pretrain/pipeline.hpp"

#include <fmt/format.h>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

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
  run_collectively(c.comm, [&] {
    o.shared.training.train.check(c.set);
    o.shared.training.profile.range();
    job.pipeline = pretrain_pipeline(o.shared, o.pretrain, inputs, o.run.dir);
  });
  run_job(c, job);
}

}  // namespace gpuhpc
