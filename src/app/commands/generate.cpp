#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/generate.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

// {"id", "text"} a line, in order.
void generate_command(CommandContext& c) {
  const Options& o = c.options;
  run_collectively(c.comm, [&] {
    if (o.shared.model.dir.empty())
      throw usage_error("--model.dir is missing; name the folder of a T5 or mT5");
    o.seq2seq.generation.check();
  });
  check_model(o.shared.model.dir, Manifest::where_there, c.comm, c.log);
  std::optional<LoadedT5> loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<T5Generator> generator;
  std::optional<JsonlWriter> writer;
  std::optional<RemovedOnSignal> signals;
  run_collectively(c.comm, [&] {
    loaded.emplace(load_t5(o.shared.model.dir, torch_device(c.device)));
    tokenizer = load_tokenizer(o.shared.model.dir);
    check_t5_vocabulary(*loaded, tokenizer->vocabulary_size());
    generator.emplace(loaded->model, tokenizer->special().single, o.seq2seq.learning.source_length,
                      o.seq2seq.generation, o.shared.infer, c.device);
  });
  const std::string prefix = c.set.given("seq2seq.prefix")
                                 ? o.seq2seq.files.prefix
                                 : loaded->model.config().prefix.value_or(o.seq2seq.files.prefix);
  on_root(c.comm, [&] {
    writer.emplace(o.output.file);
    signals.emplace(writer->temporary());
    c.log->info("{}; before each text: \"{}\"", generator->describe(), prefix);
  });
  CorpusOptions corpus = o.shared.corpus;
  corpus.ids_optional = true;
  corpus.check_duplicates = false;
  const ChunkSource next =
      chunks_of(o.shared.input.file, corpus, *tokenizer, c.comm, c.device.threads, prefix);
  Progress progress(c.log, "generating", 0, "texts", c.comm.is_root());
  std::int64_t documents = 0, tokens = 0;
  for (DocumentChunk chunk; next(chunk);) {
    const std::vector<TokenList> texts = generator->generate_together(
        chunk.tokens, documents, c.comm, [&](std::int64_t done) { progress.advance(done); });
    documents += chunk.tokens.size;
    on_root(c.comm, [&] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        tokens += std::ssize(texts[i]);
        writer->write(
            nlohmann::ordered_json{{"id", chunk.ids[i]}, {"text", tokenizer->decode(texts[i])}});
      }
    });
  }
  progress.finish();
  on_root(c.comm, [&] { writer->commit(); });
  if (c.comm.is_root())
    c.log->info("{}: {} texts, {} tokens; peak memory {} MiB", o.output.file, documents, tokens,
                peak_memory() >> 20);
}

}  // namespace gpuhpc
