#pragma once
// One encoder over many documents, spread over ranks and threads, vectors in document order: rows
// and files are the same bits on any number of ranks and threads (runner.hpp).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/options.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

struct LoadedEncoder;

// Documents as token ids without special tokens; `tokens` may be called from many threads.
struct TokenSource {
  std::int64_t size = 0;
  std::function<std::span<const std::int32_t>(std::int64_t document)> tokens;
  std::function<std::string(std::int64_t document)> name;  // in messages
};
TokenSource token_source(const TokenDataset& dataset);
TokenSource token_source(const std::vector<std::vector<std::int32_t>>& documents,
                         std::function<std::string(std::int64_t)> name = {});
// Views must outlive the source.
std::vector<std::vector<std::int32_t>> tokenize(const Tokenizer& tokenizer,
                                                std::span<const std::string> texts, int threads);

// A vector with a NaN or an infinite value ends every one of these with exit 76 and the document's
// name.
class DocumentEncoder {
 public:
  // `model` must lie on the device chosen (CPU: its weights are copied and packed; CUDA: it must
  // outlive this object). `tokenizer` gives the special tokens. Throws configuration_error for
  // kernels that this machine lacks.
  DocumentEncoder(const LoadedEncoder& model, const Tokenizer& tokenizer,
                  const InferOptions& options, const DeviceChoice& device);
  ~DocumentEncoder();
  DocumentEncoder(DocumentEncoder&&) noexcept;

  std::int64_t dimension() const;
  std::int64_t max_length() const;  // tokens of a text, or of each window of a long one
  std::string describe() const;     // "bf16 on amx, 2 threads"
  std::string fingerprint()
      const;  // what the numbers depend on beside model and documents: precision, kernels, windows

  // Documents [first, last) on this rank alone, rows in order. `done(documents)` may be empty; it
  // is called from one thread at a time.
  Matrix encode(const TokenSource& source, Range documents,
                const std::function<void(std::int64_t)>& done = {}) const;
  Matrix encode(const TokenSource& source) const { return encode(source, {0, source.size}); }

  // Collective: the work is spread over ranks. Every rank gets all rows.
  Matrix encode_together(const TokenSource& source, Communicator& comm) const;
  // Collective: rows to dataset "values" (and, when given, `ids`) of an HDF5 file. Memory does not
  // grow with the documents. `after_batch` may throw, on any rank: then all ranks do.
  void encode_to_file(const TokenSource& source, Communicator& comm,
                      const std::filesystem::path& path, const Attributes& attributes,
                      const std::function<std::string_view(std::int64_t)>& id, const Log& log,
                      const std::function<void()>& after_batch = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
