#include <fmt/format.h>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/t5.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/seq2seq/pipeline.hpp"

namespace gpuhpc {

// Pairs of texts in, a T5 out that writes the second text of a pair for its first.
void train_seq2seq_command(CommandContext& c) {
  const Options& o = c.options;
  const NewT5Options& start = o.seq2seq.model;
  run_collectively(c.comm, [&] {
    if (!start.is_size() && !std::filesystem::exists(start.model))
      throw usage_error("--seq2seq.model {}: neither small or base nor a model's folder",
                        start.model);
    if (o.shared.fine_tune.layers != -1)
      throw usage_error("--train.layers {}: a T5 learns as a whole; leave the option out",
                        o.shared.fine_tune.layers);
    const FineTuneOptions usual;
    for (const auto& [name, changed] :
         {std::pair{"head-lr", o.shared.fine_tune.head_rate != usual.head_rate},
          std::pair{"max-length", o.shared.fine_tune.max_length != usual.max_length}})
      if (changed)
        throw usage_error(
            "--train.{} has no meaning for a T5: its one rate is --train.encoder-lr, its lengths "
            "are --seq2seq.source-length and --seq2seq.target-length",
            name);
    // Before the texts are cut into tokens.
    if (!start.is_size()) read_t5_config(std::filesystem::path(start.model) / "config.json");
  });
  check_model(start.is_size() ? o.shared.model.encoder : start.model, Manifest::where_there, c.comm,
              c.log);
  const Seq2SeqInputs inputs = find_text_pairs(o.seq2seq.files, o.shared.corpus.format, c.comm);
  Job job{Pipeline(o.run.dir),
          o.seq2seq.files.train,
          fmt::format("{} pairs to learn from, {} to validate", inputs.train.rows(),
                      inputs.validation.rows()),
          inputs.warnings,
          {}};
  run_collectively(c.comm, [&] {
    o.shared.training.train.check(c.set, inputs.validation.rows() > 0);
    o.shared.training.profile.range();
    job.pipeline = seq2seq_pipeline(o.shared, o.seq2seq, inputs, o.run.dir);
  });
  run_job(c, job);
}

}  // namespace gpuhpc
