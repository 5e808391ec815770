// Text to vectors, as bench/peers/encode.py drives it: one JSON line with documents, real tokens
// and seconds of each repetition (tokenizer included), on processors the share of each part, and
// the vectors in an HDF5 file.
//   encode_bench MODEL TEXTS OUTPUT.h5 PRECISION THREADS REPETITIONS [KERNELS]
// TEXTS: id<TAB>text lines. KERNELS: the processor's, or "cuda": GPU 0.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "../answer.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::string> read_texts(const std::string& path) {
  std::vector<std::string> texts;
  LineReader reader(path);
  for (std::string line; reader.next(line);) texts.push_back(line.substr(line.find('\t') + 1));
  return texts;
}

std::span<const std::int32_t> cut(std::span<const std::int32_t> ids, const TextTemplate& form,
                                  std::int64_t limit) {
  return ids.first(std::min(ids.size(), static_cast<std::size_t>(limit - form.specials())));
}

// Seconds in linears, attention and the rest of one pass on one thread.
CpuWorkspace::Times shares(const LoadedEncoder& model, const Tokenizer& tokenizer,
                           const std::vector<std::vector<std::int32_t>>& documents,
                           CpuPrecision precision, kernels::Isa isa) {
  const CpuEncoder encoder(model.encoder, precision, isa);
  const auto workspace = encoder.make_workspace();
  const TextTemplate& form = tokenizer.special().single;
  PackedIds packed;
  const std::int64_t limit = model.model.embedding.max_tokens > 0 ? model.model.embedding.max_tokens
                                                                  : encoder.config().max_tokens();
  for (const auto& document : documents) {
    if (packed.size() == 256) break;  // enough to tell shares
    packed.add(packed.size(), cut(document, form, limit), form);
  }
  Matrix rows(packed.size(), encoder.config().hidden_size);
  for (const bool timed : {false, true}) {
    workspace->timed = timed;
    encoder.embed(*workspace, packed, model.model.embedding, rows.view());
  }
  return workspace->times;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 6)
    throw usage_error("encode_bench MODEL TEXTS OUTPUT.h5 PRECISION THREADS REPETITIONS [KERNELS]");
  const bool cuda = arguments.size() > 6 && arguments[6] == "cuda";
  const DeviceChoice device{cuda, 0, std::stoi(arguments[4])};
  const LoadedEncoder model = load_encoder(arguments[0], torch_device(device));
  const auto tokenizer = load_tokenizer(arguments[0]);
  const std::vector<std::string> texts = read_texts(arguments[1]);
  InferOptions options;
  options.precision = arguments[3];
  if (arguments.size() > 6 && !cuda) options.kernels = arguments[6];
  const DocumentEncoder encoder(model, *tokenizer, options, device);
  std::string seconds;
  double tokenizing = 1e9;
  std::vector<std::vector<std::int32_t>> ids;
  for (int i = -1; i < std::stoi(arguments[5]); ++i) {  // the first one warms up
    const auto start = std::chrono::steady_clock::now();
    ids = tokenize(*tokenizer, texts, device.threads);
    const double spent = seconds_since(start);
    const Matrix rows = encoder.encode(token_source(ids));
    if (i < 0)
      write_matrix(arguments[2], rows.view());
    else
      seconds += fmt::format("{}{:.6f}", i == 0 ? "" : ", ", seconds_since(start));
    tokenizing = std::min(tokenizing, spent);
  }
  const std::int64_t limit = model.model.embedding.max_tokens > 0
                                 ? model.model.embedding.max_tokens
                                 : model.encoder.config().max_tokens();
  const TextTemplate& form = tokenizer->special().single;
  std::int64_t tokens = 0;
  for (const auto& document : ids)
    tokens += std::ssize(cut(document, form, limit)) + form.specials();
  std::string parts;
  if (!cuda) {
    const CpuWorkspace::Times times =
        shares(model, *tokenizer, ids, options.cpu_precision(), options.isa());
    const double sum = times.linear + times.attention + times.other;
    parts = fmt::format(", \"linear\": {:.4f}, \"attention\": {:.4f}, \"other\": {:.4f}",
                        times.linear / sum, times.attention / sum, times.other / sum);
  }
  fmt::print(
      "{{\"what\": \"{}\", \"documents\": {}, \"tokens\": {}, \"seconds\": [{}], "
      "\"tokenizing_seconds\": {:.6f}{}}}\n",
      encoder.describe(), texts.size(), tokens, seconds, tokenizing, parts);
  return 0;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) { return gpuhpc::answer(argc, argv, gpuhpc::run); }
