#include "gpuhpc/pipelines/text_encoder.hpp"

#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {

struct TextEncoder::State {
  std::optional<LoadedEncoder> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<DocumentEncoder> encoder;
  int threads = 1;
  Log log;
};

TextEncoder::TextEncoder(const std::filesystem::path& folder, const InferOptions& infer,
                         const DeviceChoice& device, Communicator& comm, Log log, Pooling plain,
                         Length length)
    : state_(std::make_unique<State>()) {
  run_collectively(comm, [&] {
    state_->model.emplace(load_encoder(folder, torch_device(device), plain));
    if (length == Length::unit) state_->model->model.embedding.normalise = true;
    state_->tokenizer = load_tokenizer(folder);
    check_vocabulary(state_->model->model, state_->tokenizer->vocabulary_size());
    state_->encoder.emplace(*state_->model, *state_->tokenizer, infer, device);
  });
  state_->threads = device.threads;
  state_->log = std::move(log);
  if (comm.is_root())
    state_->log->info("encoder {}: {}", folder.string(), state_->encoder->describe());
}

TextEncoder::~TextEncoder() = default;

const Tokenizer& TextEncoder::tokenizer() const { return *state_->tokenizer; }
std::int64_t TextEncoder::width() const { return state_->encoder->dimension(); }

void TextEncoder::check_width(std::int64_t columns, const std::filesystem::path& file) const {
  if (columns != width())
    throw Error(ExitCode::bad_data,
                fmt::format("{}: made for vectors of {} values, the encoder gives {}; train the "
                            "model again",
                            file.string(), columns, width()),
                /*on_all_ranks=*/true);
}

Matrix TextEncoder::encode(std::span<const std::string> texts, Communicator& comm) const {
  const auto tokens = tokenize(*state_->tokenizer, texts, state_->threads);
  return encode(token_source(tokens,
                             [&](std::int64_t i) {
                               return fmt::format("the text `{}`",
                                                  texts[static_cast<std::size_t>(i)].substr(0, 80));
                             }),
                comm);
}

Matrix TextEncoder::encode(const TokenSource& texts, Communicator& comm) const {
  return state_->encoder->encode_together(texts, comm);
}

void TextEncoder::encode(const TokenDataset& dataset, const std::filesystem::path& path,
                         Communicator& comm, const std::function<void()>& after_batch) const {
  dataset.check_tokenizer(*state_->tokenizer);
  state_->encoder->encode_to_file(
      token_source(dataset), comm, path, {}, [&](std::int64_t i) { return dataset.id(i); },
      state_->log, after_batch);
}

void TextEncoder::encode(const TokenSource& texts, const std::filesystem::path& path,
                         Communicator& comm, const std::function<void()>& after_batch) const {
  state_->encoder->encode_to_file(texts, comm, path, {}, {}, state_->log, after_batch);
}

}  // namespace gpuhpc
