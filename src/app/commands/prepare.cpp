#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

void prepare_command(CommandContext& c) {
  const Options& o = c.options;
  on_root(c.comm, [&] {
    check_output("output.dir", std::filesystem::path(o.output.dir) / "manifest.json",
                 "{\n  \"documents\"");
  });
  std::unique_ptr<Tokenizer> tokenizer;
  run_collectively(c.comm, [&] {
    if (o.output.dir.empty()) throw usage_error("name the folder for the shards with --output.dir");
    tokenizer = load_tokenizer(o.shared.model.encoder);
  });
  check_model(o.shared.model.encoder, Manifest::where_there, c.comm, c.log);
  Progress progress(c.log, "tokenizing", 0, "documents", c.comm.is_root());
  const ShardSummary summary = prepare_shards(
      scan_corpus(o.shared.input.file, o.shared.corpus, c.comm), *tokenizer, o.output.dir,
      o.shared.shards, Texts::leave, c.comm, c.device.threads, [&](std::int64_t documents) {
        progress.advance(documents);
        if (StopSignals::requested())
          throw Error(ExitCode::requeue,
                      "stopped as asked by a signal; no shard is kept: start the "
                      "same command again");
      });
  progress.finish();
  if (c.comm.is_root())
    c.log->info(
        "{}: {} documents, {} tokens, {} shards, longest document {} tokens; peak memory {} MiB",
        o.output.dir, summary.documents, summary.tokens, summary.shards, summary.longest,
        peak_memory() >> 20);
}

}  // namespace gpuhpc
