#include "gpuhpc/pipelines/text_encoder.hpp"

#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {

struct TextEncoder::State {
  std::optional<LoadedEncoder> model;
  std::filesystem::path folder;
  std::unique_ptr<Tokenizer> tokenizer;
  std::string prompt;
  std::optional<DocumentEncoder> encoder;
  int threads = 1;
  Log log;

  // A tokenizer behind what `given` means, which it returns.
  std::string behind(const std::string& given, std::unique_ptr<Tokenizer>& made) const {
    std::string text = model->model.prompts.text(given);
    model->model.check_prompt(text);
    made = behind_prompt(load_tokenizer(folder), text);
    return text;
  }
};

TextEncoder::TextEncoder(const std::filesystem::path& folder, const InferOptions& infer,
                         const DeviceChoice& device, Communicator& comm, Log log,
                         const EncoderReading& reading, Length length)
    : state_(std::make_unique<State>()) {
  run_collectively(comm, [&] {
    state_->model.emplace(load_encoder(folder, torch_device(device), reading.plain));
    if (length == Length::unit) state_->model->model.embedding.normalise = true;
    state_->folder = folder;
    state_->prompt = state_->behind(reading.prompt, state_->tokenizer);
    check_vocabulary(state_->model->model, state_->tokenizer->vocabulary_size());
    state_->encoder.emplace(*state_->model, *state_->tokenizer, infer, device);
  });
  state_->threads = device.threads;
  state_->log = std::move(log);
  if (comm.is_root())
    state_->log->info(
        "encoder {}: {}{}", folder.string(), state_->encoder->describe(),
        state_->prompt.empty() ? "" : fmt::format(", texts behind \"{}\"", state_->prompt));
}

TextEncoder::~TextEncoder() = default;

const Tokenizer& TextEncoder::tokenizer() const { return *state_->tokenizer; }
std::int64_t TextEncoder::width() const { return state_->encoder->dimension(); }
std::int64_t TextEncoder::max_length() const { return state_->encoder->max_length(); }

void TextEncoder::check_width(std::int64_t columns, const std::filesystem::path& file) const {
  if (columns != width())
    throw Error(ExitCode::bad_data,
                fmt::format("{}: made for vectors of {} values, the encoder gives {}; train the "
                            "model again",
                            file.string(), columns, width()),
                /*on_all_ranks=*/true);
}

Matrix TextEncoder::encode(std::span<const std::string> texts, Communicator& comm) const {
  return encode(texts, *state_->tokenizer, comm);
}

Matrix TextEncoder::encode(std::span<const std::string> texts, const std::string& prompt,
                           Communicator& comm) const {
  std::unique_ptr<Tokenizer> tokenizer;
  run_collectively(comm, [&] { state_->behind(prompt, tokenizer); });
  return encode(texts, *tokenizer, comm);
}

Matrix TextEncoder::encode(std::span<const std::string> texts, const Tokenizer& tokenizer,
                           Communicator& comm) const {
  const auto tokens = tokenize(tokenizer, texts, state_->threads);
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
