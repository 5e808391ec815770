#include <algorithm>
#include <chrono>
#include <optional>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/generate.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/resumable_lines.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t rows_of_a_block = 512;  // generated together; lost at most by a kill

// All that the texts follow from.
std::string task_of(const CommandContext& c, const std::string& prefix) {
  const Options& o = c.options;
  Fingerprint task;
  for (const auto& lines :
       {config::settings_of(o.seq2seq.generation), config::settings_of(o.seq2seq.learning),
        config::settings_of(o.shared.infer), config::settings_of(o.shared.corpus)})
    for (const std::string& line : lines) task.add(line);
  task.add(prefix).add(c.device.cuda ? 1 : 0).add_file(o.shared.input.file);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(o.shared.model.dir))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) task.add_file(file);
  return task.hex();
}

// Where the lines go. A file of a file's texts survives a kill; a pipe does not.
class Written {
 public:
  Written(const CommandContext& c, const std::string& prefix) {
    const fs::path out = c.options.output.file, in = c.options.shared.input.file;
    const bool to_file = out != "-" && (!fs::exists(out) ||
                                        fs::symlink_status(out).type() == fs::file_type::regular);
    if (!to_file || !fs::is_regular_file(in)) {
      stream_.emplace(out);
      signals_.emplace(stream_->temporary());
      return;
    }
    lines_.emplace(out, task_of(c, prefix), rows_of_a_block);
    for (const fs::path& other : lines_->others())
      c.log->warn(
          "{} holds texts that were generated with other options, from other texts or by another "
          "model; remove it when it is not needed",
          other.string());
    if (done() > 0)
      c.log->info("{}: {} texts were generated before; going on after them",
                  lines_->partial().string(), done());
  }
  std::int64_t done() const { return lines_ ? lines_->done() : 0; }
  void write(std::vector<std::string> lines) {
    if (lines_)
      lines_->append(lines);
    else
      for (std::string& line : lines) stream_->write_line(std::move(line));
  }
  void commit() { lines_ ? lines_->commit() : stream_->commit(); }

 private:
  std::optional<ResumableLines> lines_;
  std::optional<JsonlWriter> stream_;
  std::optional<RemovedOnSignal> signals_;
};

}  // namespace

// {"id", "text"} a line, in order.
void generate_command(CommandContext& c) {
  const Options& o = c.options;
  on_root(c.comm, [&] { check_output_file(o); });
  run_collectively(c.comm, [&] {
    if (o.shared.model.dir.empty())
      throw usage_error("--model.dir is missing; name the folder of a T5 or mT5");
    o.seq2seq.generation.check();
  });
  check_model(o.shared.model.dir, Manifest::where_there, c.comm, c.log);
  std::optional<LoadedT5> loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<T5Generator> generator;
  std::optional<Written> written;
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
    written.emplace(c, prefix);
    c.log->info("{}; before each text: \"{}\"", generator->describe(), prefix);
  });
  const ChunkSource next = chunks_of(o.shared.input.file, o.shared.corpus, *tokenizer, c.comm,
                                     c.device.threads, c.log, prefix, rows_of_a_block);
  std::int64_t before = written ? written->done() : 0;
  c.comm.broadcast(&before, 1, DataType::int64, 0);
  Progress progress(c.log, "generating", 0, "texts", c.comm.is_root());
  std::int64_t documents = 0, tokens = 0;
  double seconds = 0;
  progress.resume(before);
  for (DocumentChunk chunk; next(chunk);) {
    if (documents < before) {
      documents += chunk.tokens.size;
      continue;
    }
    const auto begun = std::chrono::steady_clock::now();
    const std::vector<TokenList> texts = generator->generate_together(
        chunk.tokens, documents, c.comm, [&](std::int64_t done) { progress.advance(done); });
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    documents += chunk.tokens.size;
    on_root(c.comm, [&] {
      std::vector<std::string> lines;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        tokens += std::ssize(texts[i]);
        lines.push_back(
            nlohmann::ordered_json{{"id", chunk.ids[i]}, {"text", tokenizer->decode(texts[i])}}
                .dump());
      }
      written->write(std::move(lines));
    });
  }
  progress.finish();
  on_root(c.comm, [&] { written->commit(); });
  if (c.comm.is_root())
    c.log->info("{}: {} texts; {} tokens generated now, {:.0f} tokens/s; peak memory {} MiB",
                o.output.file, documents, tokens,
                static_cast<double>(tokens) / std::max(1e-9, seconds), peak_memory() >> 20);
}

}  // namespace gpuhpc
