#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/signals.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/quantize.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

#include <functional>
#include <optional>

namespace gpuhpc {
namespace {

using Ids = std::vector<std::string>;
using UseChunk = std::function<void(const Ids&, const Matrix&)>;

// The vectors of a file's texts in order, in bounded memory, to the root. Collective.
void encode_file(CommandContext& c, const TextEncoder& encoder, const std::string& file,
                 Progress& progress, const UseChunk& use) {
  const ChunkSource next = chunks_of(file, c.options.shared.corpus, encoder.tokenizer(), c.comm,
                                     c.device.threads, c.log);
  for (DocumentChunk chunk; next(chunk);) {
    const Matrix vectors = encoder.encode(chunk.tokens, c.comm);
    on_root(c.comm, [&] { use(chunk.ids, vectors); });
    progress.advance(chunk.tokens.size);
  }
}

void check(const OutputOptions& o) {
  if (!o.calibration.empty() && !needs_ranges(parse_quantization(o.quantize)))
    throw usage_error(
        "--output.calibration gives the ranges of int8 and uint8, but --output.quantize is {}; "
        "leave one of them out",
        o.quantize);
}

// One vector has no range; of few it is rough.
void check(const ColumnRanges& ranges, const Options& o, spdlog::logger& log) {
  const std::string& file =
      o.output.calibration.empty() ? o.shared.input.file : o.output.calibration;
  if (ranges.rows < 2)
    throw input_error(
        "{}: one text has no range to cut into steps for --output.quantize {}; give a file of "
        "more texts with --output.calibration",
        file, o.output.quantize);
  if (ranges.rows < 100)
    log.warn("{}: the ranges of {} come from {} texts; with --output.calibration from more", file,
             o.output.quantize, ranges.rows);
}

}  // namespace

// {"id", "embedding": [...]} a line, in order.
void encode_command(CommandContext& c) {
  const Options& o = c.options;
  on_root(c.comm, [&] { check_output_file(o); });
  run_collectively(c.comm, [&] { check(o.output); });
  const std::string& model =
      o.shared.model.dir.empty() ? o.shared.model.encoder : o.shared.model.dir;
  check_model(model, Manifest::where_there, c.comm, c.log);
  const TextEncoder encoder(model, o.shared.infer, c.device, c.comm, c.log,
                            {o.shared.pooling.kind(), o.shared.prompt.given},
                            TextEncoder::Length::own);
  const Quantization kind = parse_quantization(o.output.quantize);
  std::optional<JsonlWriter> writer;
  std::optional<RemovedOnSignal> signals;
  on_root(c.comm, [&] {
    writer.emplace(o.output.file);
    signals.emplace(writer->temporary());
  });
  std::int64_t documents = 0;
  ColumnRanges ranges;
  const UseChunk write = [&](const Ids& ids, const Matrix& vectors) {
    documents += vectors.rows;
    for (std::int64_t i = 0; i < vectors.rows; ++i) {
      const auto row = vectors.row(i);
      nlohmann::ordered_json line{{"id", ids[static_cast<std::size_t>(i)]}};
      if (kind == Quantization::none)
        line["embedding"] = std::vector<float>(row.begin(), row.end());
      else
        line["embedding"] = quantize(row, kind, ranges);
      writer->write(line);
    }
  };
  // Ranges first: of the calibration's vectors, or of all, which are kept until then.
  std::vector<std::pair<Ids, Matrix>> kept;
  const UseChunk range = [&](const Ids&, const Matrix& vectors) { ranges.add(vectors.view()); };
  const UseChunk keep = [&](const Ids& ids, const Matrix& vectors) {
    ranges.add(vectors.view());
    kept.emplace_back(ids, vectors);
  };
  Progress progress(c.log, "encoding", 0, "documents", c.comm.is_root());
  if (!o.output.calibration.empty()) {
    encode_file(c, encoder, o.output.calibration, progress, range);
    on_root(c.comm, [&] { check(ranges, o, *c.log); });
  }
  const bool own = needs_ranges(kind) && o.output.calibration.empty();
  encode_file(c, encoder, o.shared.input.file, progress, own ? keep : write);
  progress.finish();
  on_root(c.comm, [&] {
    if (own) check(ranges, o, *c.log);
    for (const auto& [ids, vectors] : kept) write(ids, vectors);
    writer->commit();
  });
  if (c.comm.is_root())
    c.log->info("{}: {} documents; peak memory {} MiB", o.output.file, documents,
                peak_memory() >> 20);
}

}  // namespace gpuhpc
