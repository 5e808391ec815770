#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/label/predict.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

#include <optional>

namespace gpuhpc {

// {"id", "embedding": [...]} a line, in order, in bounded memory.
void encode_command(CommandContext& c) {
  const Options& o = c.options;
  const std::string& model =
      o.shared.model.dir.empty() ? o.shared.model.encoder : o.shared.model.dir;
  check_model(model, Manifest::where_there, c.comm, c.log);
  const TextEncoder encoder(model, o.shared.infer, c.device, c.comm, c.log,
                            o.shared.pooling.kind());
  CorpusOptions corpus = o.shared.corpus;
  corpus.ids_optional = true;
  corpus.check_duplicates = false;
  const ChunkSource next =
      chunks_of(o.shared.input.file, corpus, encoder.tokenizer(), c.comm, c.device.threads);
  std::optional<JsonlWriter> writer;
  std::optional<RemovedOnSignal> signals;
  on_root(c.comm, [&] {
    writer.emplace(o.output.file);
    signals.emplace(writer->temporary());
  });
  Progress progress(c.log, "encoding", 0, "documents", c.comm.is_root());
  std::int64_t documents = 0;
  for (DocumentChunk chunk; next(chunk);) {
    const Matrix vectors = encoder.encode(chunk.tokens, c.comm);
    on_root(c.comm, [&] {
      for (std::size_t i = 0; i < chunk.ids.size(); ++i) {
        const auto row = vectors.row(static_cast<std::int64_t>(i));
        writer->write(nlohmann::ordered_json{
            {"id", chunk.ids[i]}, {"embedding", std::vector<float>(row.begin(), row.end())}});
      }
    });
    documents += chunk.tokens.size;
    progress.advance(chunk.tokens.size);
  }
  on_root(c.comm, [&] { writer->commit(); });
  progress.finish();
  if (c.comm.is_root())
    c.log->info("{}: {} documents; peak memory {} MiB", o.output.file, documents,
                peak_memory() >> 20);
}

}  // namespace gpuhpc
