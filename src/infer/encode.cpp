#include "gpuhpc/infer/encode.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/parallel.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/data/batches.hpp"
#include "gpuhpc/nn/cpu_encoder.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

void normalise(std::span<float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  const float factor = static_cast<float>(1.0 / std::max(std::sqrt(squares), 1e-12));
  for (float& value : row) value *= factor;
}

std::int64_t window_length(const LoadedEncoder& model, const InferOptions& options) {
  const std::int64_t most = model.encoder.config().max_tokens();
  if (options.max_length > most)
    throw configuration_error(
        "infer.max-length is {}, but the model has {} positions; choose at most that",
        options.max_length, most);
  if (options.max_length != 0 && options.max_length < 3)
    throw configuration_error("infer.max-length must leave room for a token; choose at least 3");
  if (options.max_length > 0) return options.max_length;
  return model.model.embedding.max_tokens > 0 ? std::min(model.model.embedding.max_tokens, most)
                                              : most;
}

}  // namespace

struct DocumentEncoder::State {
  EmbeddingConfig embedding;
  const Encoder* torch_encoder = nullptr;   // CUDA
  std::unique_ptr<CpuEncoder> cpu_encoder;  // CPU
  ForwardOptions forward;                   // CUDA
  std::string numbers;                      // "bf16 on amx"
  int threads = 1;
  TextTemplate form;
  std::int64_t hidden = 0, max_length = 0, budget = 0;
  LongDocuments mode = LongDocuments::truncate;

  std::vector<EncodeBatch> cut(const TokenSource& source, Range documents) const;
  void embed(CpuWorkspace* workspace, const PackedIds& packed, MutableMatrixView output) const;
  void encode_batch(CpuWorkspace* workspace, const TokenSource& source, Range documents,
                    MutableMatrixView rows) const;
  // use(first document, rows) for every batch, from several threads.
  void run(const TokenSource& source, std::span<const EncodeBatch> batches,
           const std::function<void(std::int64_t, const Matrix&)>& use) const;
};

DocumentEncoder::DocumentEncoder(const LoadedEncoder& model, const Tokenizer& tokenizer,
                                 const InferOptions& options, const DeviceChoice& device)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  check_vocabulary(model.model, tokenizer.vocabulary_size());
  state.embedding = model.model.embedding;
  state.form = tokenizer.special().single;
  state.hidden = model.encoder.config().hidden_size;
  state.max_length = window_length(model, options);
  state.mode = long_documents(options.long_documents);
  state.budget = options.token_budget > 0 ? options.token_budget : device.cuda ? 32768 : 2048;
  state.threads = device.cuda ? 1 : std::max(device.threads, 1);
  const CpuPrecision precision = options.precision_kind(device.cuda);
  if (device.cuda) {
    state.torch_encoder = &model.encoder;
    state.forward.compute = precision == CpuPrecision::bf16 ? at::kBFloat16 : at::kFloat;
    state.forward.tf32 = precision == CpuPrecision::tf32;
    state.numbers = fmt::format("{} on cuda", to_string(precision));
    return;
  }
  const kernels::Isa isa = options.isa();
  const bool instead = options.precision == "bf16" && precision != CpuPrecision::bf16;
  state.cpu_encoder = std::make_unique<CpuEncoder>(model.encoder, precision, isa);
  state.numbers = fmt::format("{} on {}{}", to_string(precision), to_string(isa),
                              instead ? " (which does not multiply bf16)" : "");
}
DocumentEncoder::~DocumentEncoder() = default;
DocumentEncoder::DocumentEncoder(DocumentEncoder&&) noexcept = default;

std::int64_t DocumentEncoder::dimension() const { return state_->hidden; }
std::string DocumentEncoder::describe() const {
  return fmt::format("{}, {} thread{}", state_->numbers, state_->threads,
                     state_->threads == 1 ? "" : "s");
}
std::string DocumentEncoder::fingerprint() const {
  return fmt::format("{}, windows of {}, {}", state_->numbers, state_->max_length,
                     state_->mode == LongDocuments::mean ? "mean" : "truncate");
}

std::vector<EncodeBatch> DocumentEncoder::State::cut(const TokenSource& source,
                                                     Range documents) const {
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(documents.size()));
  for (std::int64_t d = documents.first; d < documents.last; ++d) {
    const std::int64_t tokens = std::ssize(source.tokens(d)),
                       content = max_length - form.specials();
    const std::int64_t count = window_count(tokens, content, mode);
    lengths.push_back((mode == LongDocuments::truncate ? std::min(tokens, content) : tokens) +
                      form.specials() * count);
  }
  std::vector<EncodeBatch> batches = cut_batches(lengths, budget, hidden);
  for (EncodeBatch& batch : batches) batch.first += documents.first, batch.last += documents.first;
  return batches;
}

void DocumentEncoder::State::embed(CpuWorkspace* workspace, const PackedIds& packed,
                                   MutableMatrixView output) const {
  EmbeddingConfig plain = embedding;
  plain.normalise = false;  // after the windows of a document are averaged
  if (cpu_encoder)
    return cpu_encoder->embed(*workspace, {packed.token_ids, packed.offsets}, plain, output);
  const at::NoGradGuard guard;
  const at::Tensor rows =
      torch_encoder
          ->embed(pack_tokens(packed.token_ids, packed.offsets, torch_encoder->device()), plain,
                  forward)
          .to(at::kCPU, at::kFloat)
          .contiguous();
  std::copy_n(rows.const_data_ptr<float>(), rows.numel(), output.data);
}

void DocumentEncoder::State::encode_batch(CpuWorkspace* workspace, const TokenSource& source,
                                          Range documents, MutableMatrixView rows) const {
  PackedIds packed;
  for (std::int64_t d = documents.first; d < documents.last; ++d)
    for (const auto window : windows(source.tokens(d), max_length - form.specials(), mode))
      packed.add(d, window, form);
  const bool one_each = packed.size() == documents.size();
  Matrix vectors(one_each ? 0 : packed.size(), hidden);
  embed(workspace, packed, one_each ? rows : vectors.view());
  std::int64_t item = 0;
  for (std::int64_t d = documents.first; d < documents.last; ++d) {
    const std::span<float> row = rows.row(d - documents.first);
    if (!one_each) {
      const std::int64_t begin = item;
      std::fill(row.begin(), row.end(), 0.0F);
      for (; item < packed.size() && packed.documents[static_cast<std::size_t>(item)] == d; ++item)
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += vectors.row(item)[i];
      for (float& value : row) value /= static_cast<float>(item - begin);
    }
    if (embedding.normalise) normalise(row);
  }
}

void DocumentEncoder::State::run(
    const TokenSource& source, std::span<const EncodeBatch> batches,
    const std::function<void(std::int64_t, const Matrix&)>& use) const {
  std::vector<std::unique_ptr<CpuWorkspace>> workspaces(static_cast<std::size_t>(threads));
  parallel_for(0, std::ssize(batches), threads, [&](std::int64_t b, int thread) {
    auto& workspace = workspaces[static_cast<std::size_t>(thread)];
    if (!workspace && cpu_encoder) workspace = cpu_encoder->make_workspace();
    const EncodeBatch& batch = batches[static_cast<std::size_t>(b)];
    Matrix rows(batch.last - batch.first, hidden);
    encode_batch(workspace.get(), source, {batch.first, batch.last}, rows.view());
    use(batch.first, rows);
  });
}

Matrix DocumentEncoder::encode(const TokenSource& source, Range documents,
                               const std::function<void(std::int64_t)>& done) const {
  Matrix all(documents.size(), state_->hidden);
  std::mutex mutex;
  state_->run(source, state_->cut(source, documents), [&](std::int64_t first, const Matrix& rows) {
    std::copy(rows.values.begin(), rows.values.end(), all.row(first - documents.first).data());
    if (!done) return;
    const std::lock_guard lock(mutex);
    done(rows.rows);
  });
  return all;
}

Matrix DocumentEncoder::encode_together(const TokenSource& source, Communicator& comm) const {
  std::vector<float> mine;
  together(comm, [&] {
    const std::vector<EncodeBatch> batches = state_->cut(source, {0, source.size});
    const Range share = share_of_rank(batches, comm.rank(), comm.size());
    if (share.size() == 0) return;
    const auto own = std::span(batches).subspan(static_cast<std::size_t>(share.first),
                                                static_cast<std::size_t>(share.size()));
    const std::int64_t begin = own.front().first;
    mine.resize(static_cast<std::size_t>((own.back().last - begin) * state_->hidden));
    state_->run(source, own, [&](std::int64_t first, const Matrix& rows) {
      std::copy(rows.values.begin(), rows.values.end(),
                mine.begin() + (first - begin) * state_->hidden);
    });
  });
  Matrix all;
  all.rows = source.size;
  all.columns = state_->hidden;
  all.values = comm.all_gather_vector(std::span<const float>(mine));
  return all;
}

void DocumentEncoder::encode_to_file(const TokenSource& source, Communicator& comm,
                                     const std::filesystem::path& path,
                                     const Attributes& attributes,
                                     const std::function<std::string_view(std::int64_t)>& id,
                                     const Log& log,
                                     const std::function<void()>& after_batch) const {
  std::vector<EncodeBatch> batches;
  std::vector<ArraySpec> arrays{{"values", ElementType::float32, {source.size, state_->hidden}}};
  together(comm, [&] {
    batches = state_->cut(source, {0, source.size});
    if (!id) return;
    std::int64_t width = 1;
    for (std::int64_t d = 0; d < source.size; ++d) width = std::max(width, std::ssize(id(d)));
    arrays.push_back({"ids", ElementType::string, {source.size}, width});
  });
  MatrixFileWriter writer(path, comm, arrays, attributes);
  together(comm, [&] {
    const Range share = share_of_rank(batches, comm.rank(), comm.size());
    const auto own = std::span<const EncodeBatch>(batches).subspan(
        static_cast<std::size_t>(share.first), static_cast<std::size_t>(share.size()));
    const std::int64_t documents = own.empty() ? 0 : own.back().last - own.front().first;
    Progress progress(log, "encoding", documents, "documents", comm.is_root());
    std::mutex mutex;
    state_->run(source, own, [&](std::int64_t first, const Matrix& rows) {
      writer.write_rows("values", first, rows.view());
      std::vector<std::string> ids;
      for (std::int64_t d = first; id && d < first + rows.rows; ++d) ids.emplace_back(id(d));
      if (id) writer.write_strings("ids", first, ids);
      const std::lock_guard lock(mutex);
      progress.advance(rows.rows);
      if (after_batch) after_batch();
    });
    progress.finish();
  });
  writer.commit();
}

}  // namespace gpuhpc
