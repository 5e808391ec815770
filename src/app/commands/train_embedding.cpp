#include <fmt/format.h>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/embedding/pipeline.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

// Pairs of texts in, an encoder out whose vectors find what belongs together.
void train_embedding_command(CommandContext& c) {
  const Options& o = c.options;
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  const PairInputs inputs =
      find_pairs(o.embedding.files, o.embedding.loss, o.shared.corpus.format, c.comm);
  Job job{Pipeline(o.run.dir),
          o.embedding.files.train,
          fmt::format("{} rows to learn from, {} to validate, {} to measure", inputs.train.rows(),
                      inputs.validation.rows(), inputs.test.rows()),
          inputs.warnings,
          {}};
  run_collectively(c.comm, [&] {
    o.shared.training.train.check(c.set, inputs.validation.rows() > 0);
    o.shared.training.profile.range();
    job.pipeline = embedding_pipeline(o.shared, o.embedding, inputs, o.run.dir);
  });
  run_job(c, job);
}

}  // namespace gpuhpc
