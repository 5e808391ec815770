#include <fmt/format.h>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/pipelines/embedding/pipeline.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

// Pairs of texts in, the same with hard negatives out: mined.jsonl in the run folder.
void mine_command(CommandContext& c) {
  const Options& o = c.options;
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  if (const std::string& folder = o.embedding.mining.cross_encoder; !folder.empty())
    check_model(folder, Manifest::where_there, c.comm, c.log);
  run_collectively(c.comm, [&] {
    if (!o.embedding.datasets.empty())
      throw usage_error("[dataset.{}]: mine reads --embedding.train alone; leave the section out",
                        o.embedding.datasets.front().name);
    for (const auto& [option, file] :
         {std::pair{"validation", o.embedding.files.validation}, {"test", o.embedding.files.test}})
      if (!file.empty())
        throw usage_error("--embedding.{} {}: mine reads --embedding.train alone; leave it out",
                          option, file);
  });
  EmbeddingOptions embedding;
  std::vector<PairDataset> datasets;
  run_collectively(c.comm, [&] {
    embedding =
        with_prompts(o.embedding, read_model_folder(o.shared.model.encoder), o.shared.prompt.given);
    EmbeddingOptions alone;
    alone.files = embedding.files;
    datasets = pair_datasets(alone);
  });
  const PairInputs inputs = find_pairs(datasets, embedding.files, o.shared.corpus.format, c.comm);
  Job job{Pipeline(o.run.dir),
          o.embedding.files.train,
          fmt::format("negatives for {} rows", inputs.rows()),
          inputs.warnings,
          {}};
  run_collectively(c.comm,
                   [&] { job.pipeline = mining_pipeline(o.shared, embedding, inputs, o.run.dir); });
  run_job(c, job);
}

}  // namespace gpuhpc
