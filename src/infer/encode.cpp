#include "gpuhpc/infer/encode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/finite.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/runner.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

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

TokenSource token_source(const TokenDataset& dataset) {
  return {dataset.size(), [&dataset](std::int64_t document) { return dataset.tokens(document); },
          [&dataset](std::int64_t document) {
            return fmt::format("document `{}`", dataset.id(document));
          }};
}

TokenSource token_source(const std::vector<std::vector<std::int32_t>>& documents,
                         std::function<std::string(std::int64_t)> name) {
  return {std::ssize(documents),
          [&documents](std::int64_t document) {
            return std::span<const std::int32_t>(documents[static_cast<std::size_t>(document)]);
          },
          std::move(name)};
}

std::vector<std::vector<std::int32_t>> tokenize(const Tokenizer& tokenizer,
                                                std::span<const std::string> texts, int threads) {
  std::vector<std::vector<std::int32_t>> all(texts.size());
  std::vector<std::unique_ptr<TokenizerScratch>> scratches(
      static_cast<std::size_t>(std::max(threads, 1)));
  constexpr std::int64_t kBlock = 64;
  parallel_for(0, block_count(std::ssize(texts), kBlock), std::max(threads, 1),
               [&](std::int64_t block, int thread) {
                 auto& scratch = scratches[static_cast<std::size_t>(thread)];
                 if (!scratch) scratch = tokenizer.make_scratch();
                 const Range items = block_items(block, std::ssize(texts), kBlock);
                 for (std::int64_t i = items.first; i < items.last; ++i)
                   tokenizer.encode_with(*scratch, texts[static_cast<std::size_t>(i)],
                                         all[static_cast<std::size_t>(i)]);
               });
  return all;
}

struct DocumentEncoder::State {
  State(const LoadedEncoder& model, const Tokenizer& tokenizer, const InferOptions& options,
        const DeviceChoice& device)
      : embedding(model.model.embedding),
        form(tokenizer.special().single),
        vocabulary(model.encoder.config().vocabulary_size),
        max_length(window_length(model, options)),
        mode(long_documents(options.long_documents)),
        runner(make_runner(model, InferPlan(options, device))) {}

  static BatchRunner make_runner(const LoadedEncoder& loaded, const InferPlan& plan);
  std::vector<ItemBatch> cut(const TokenSource& source, Range documents) const;
  // use(first document, rows) for every batch, from several threads.
  void run(const TokenSource& source, std::span<const ItemBatch> batches,
           const std::function<void(std::int64_t, const Matrix&)>& use) const;
  Matrix document_rows(const ItemBatch& batch, const PackedIds& packed, Matrix vectors) const;

  EmbeddingConfig embedding;
  TextTemplate form;
  std::int64_t vocabulary, max_length;
  LongDocuments mode;
  BatchRunner runner;
};

BatchRunner DocumentEncoder::State::make_runner(const LoadedEncoder& loaded,
                                                const InferPlan& plan) {
  EmbeddingConfig plain = loaded.model.embedding;
  plain.normalise = false;  // after the windows of a document are averaged
  const std::int64_t hidden = loaded.encoder.config().hidden_size;
  InferModel model{
      .hidden_size = hidden, .columns = plain.width(hidden), .device = loaded.encoder.device()};
  if (plan.cuda) {
    model.on_device = [&encoder = loaded.encoder, plain,
                       forward = plan.forward](const PackedTokens& batch) {
      return encoder.embed(batch, plain, forward);
    };
  } else {
    const auto encoder = std::make_shared<CpuEncoder>(loaded.encoder, plan.precision, plan.isa);
    model.workspace = [encoder] { return encoder->make_workspace(); };
    model.on_cpu = [encoder, plain](CpuWorkspace& workspace, const PackedIds& packed,
                                    MutableMatrixView rows) {
      encoder->embed(workspace, packed, plain, rows);
    };
  }
  return {plan, std::move(model)};
}

DocumentEncoder::DocumentEncoder(const LoadedEncoder& model, const Tokenizer& tokenizer,
                                 const InferOptions& options, const DeviceChoice& device) {
  check_vocabulary(model.model, tokenizer.vocabulary_size());
  state_ = std::make_unique<State>(model, tokenizer, options, device);
}
DocumentEncoder::~DocumentEncoder() = default;
DocumentEncoder::DocumentEncoder(DocumentEncoder&&) noexcept = default;

std::int64_t DocumentEncoder::dimension() const { return state_->runner.columns(); }
std::int64_t DocumentEncoder::max_length() const { return state_->max_length; }
std::string DocumentEncoder::describe() const { return state_->runner.plan().describe(); }
std::string DocumentEncoder::fingerprint() const {
  return fmt::format("{}, windows of {}, {}", state_->runner.plan().numbers, state_->max_length,
                     state_->mode == LongDocuments::mean ? "mean" : "truncate");
}

std::vector<ItemBatch> DocumentEncoder::State::cut(const TokenSource& source,
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
  std::vector<ItemBatch> batches = runner.cut(lengths);
  for (ItemBatch& batch : batches) batch.first += documents.first, batch.last += documents.first;
  return batches;
}

void DocumentEncoder::State::run(
    const TokenSource& source, std::span<const ItemBatch> batches,
    const std::function<void(std::int64_t, const Matrix&)>& use) const {
  const auto pack = [&](const ItemBatch& batch) {
    PackedIds packed;
    for (std::int64_t d = batch.first; d < batch.last; ++d) {
      const auto all = source.tokens(d);
      if (std::ranges::any_of(all, [&](std::int32_t id) { return id < 0 || id >= vocabulary; }))
        throw input_error(
            "{}: a token is none of the model's {}: the shard is damaged; run the stage that made "
            "it, or `gpuhpc prepare`, again",
            source.name ? source.name(d) : fmt::format("document {}", d), vocabulary);
      for (const auto window : windows(all, max_length - form.specials(), mode))
        packed.add(d, window, form);
    }
    return packed;
  };
  runner.run(batches, pack, [&](const ItemBatch& batch, const PackedIds& packed, Matrix vectors) {
    const Matrix rows = document_rows(batch, packed, std::move(vectors));
    if (const auto bad = find_not_finite(rows.view())) {
      const std::int64_t document = batch.first + bad->row;
      throw not_finite_error(
          "{}: the encoder gives it a vector that is not finite; are the model's weights damaged?",
          source.name ? source.name(document) : fmt::format("document {}", document));
    }
    use(batch.first, rows);
  });
}

// The vectors of the windows -> of the documents.
Matrix DocumentEncoder::State::document_rows(const ItemBatch& batch, const PackedIds& packed,
                                             Matrix vectors) const {
  const std::int64_t documents = batch.last - batch.first;
  if (packed.size() != documents) {
    Matrix means(documents, runner.columns());
    std::int64_t item = 0;
    for (std::int64_t d = 0; d < documents; ++d) {
      const std::span<float> row = means.row(d);
      const std::int64_t begin = item;
      for (; item < packed.size() &&
             packed.documents[static_cast<std::size_t>(item)] == batch.first + d;
           ++item)
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += vectors.row(item)[i];
      for (float& value : row) value /= static_cast<float>(item - begin);
    }
    vectors = std::move(means);
  }
  if (embedding.normalise)
    for (std::int64_t d = 0; d < documents; ++d) normalise(vectors.row(d));
  return vectors;
}

Matrix DocumentEncoder::encode(const TokenSource& source, Range documents,
                               const std::function<void(std::int64_t)>& done) const {
  Matrix all(documents.size(), dimension());
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
  check_one_precision(comm, state_->runner.plan());
  std::vector<float> mine;
  run_collectively(comm, [&] {
    const std::vector<ItemBatch> batches = state_->cut(source, {0, source.size});
    const auto own = share_of_rank(batches, comm.rank(), comm.size());
    if (own.empty()) return;
    const std::int64_t begin = own.front().first;
    mine.resize(static_cast<std::size_t>((own.back().last - begin) * dimension()));
    state_->run(source, own, [&](std::int64_t first, const Matrix& rows) {
      std::copy(rows.values.begin(), rows.values.end(),
                mine.begin() + (first - begin) * dimension());
    });
  });
  Matrix all;
  all.rows = source.size;
  all.columns = dimension();
  all.values = comm.all_gather_v(std::span<const float>(mine));
  return all;
}

void DocumentEncoder::encode_to_file(const TokenSource& source, Communicator& comm,
                                     const std::filesystem::path& path,
                                     const Attributes& attributes,
                                     const std::function<std::string_view(std::int64_t)>& id,
                                     const Log& log,
                                     const std::function<void()>& after_batch) const {
  check_one_precision(comm, state_->runner.plan());
  std::vector<ItemBatch> batches;
  std::vector<ArraySpec> arrays{{"values", ElementType::float32, {source.size, dimension()}}};
  run_collectively(comm, [&] {
    batches = state_->cut(source, {0, source.size});
    if (!id) return;
    std::int64_t width = 1;
    for (std::int64_t d = 0; d < source.size; ++d) width = std::max(width, std::ssize(id(d)));
    arrays.push_back({"ids", ElementType::string, {source.size}, width});
  });
  MatrixFileWriter writer(path, comm, arrays, attributes);
  run_long(comm, [&] {
    const auto own = share_of_rank(batches, comm.rank(), comm.size());
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
