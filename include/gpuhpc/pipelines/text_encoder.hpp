#pragma once
// One sentence encoder with its tokenizer, over datasets and lists of texts, spread over ranks.
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/device/device.hpp"
#include "gpuhpc/infer/encode.hpp"

namespace gpuhpc {

// How a folder is read where it does not say, or is not to be asked.
struct EncoderReading {
  Pooling plain = Pooling::mean;            // of a folder without modules.json
  std::string prompt = Prompts::of_folder;  // before texts, as Prompts::text() reads it
};

class TextEncoder {
 public:
  enum class Length { unit, own };  // of the vectors: one, or as the model has them
  // Collective. Loads the folder's weights and tokenizer, and checks that they fit each other.
  TextEncoder(const std::filesystem::path& folder, const InferOptions& infer,
              const DeviceChoice& device, Communicator& comm, Log log,
              const EncoderReading& reading = {}, Length length = Length::unit);
  ~TextEncoder();
  const Tokenizer& tokenizer() const;  // puts the prompt before every text
  std::int64_t width() const;
  std::int64_t max_length() const;  // tokens
  // input_error unless `file`, made for vectors of `columns`, was made for this encoder.
  void check_width(std::int64_t columns, const std::filesystem::path& file) const;
  // Vectors (texts, width), in order, on every rank. Collective.
  Matrix encode(std::span<const std::string> texts, Communicator& comm) const;
  // Behind another prompt, as Prompts::text() reads it.
  Matrix encode(std::span<const std::string> texts, const std::string& prompt,
                Communicator& comm) const;
  // The same of texts that this tokenizer has cut already.
  Matrix encode(const TokenSource& texts, Communicator& comm) const;
  // Vectors of the dataset's documents to a file, dataset "values" (documents, width).
  // Collective. `after_batch` may throw, on any rank: then all ranks do.
  void encode(const TokenDataset& dataset, const std::filesystem::path& path, Communicator& comm,
              const std::function<void()>& after_batch = {}) const;
  // The same of texts that have no ids.
  void encode(const TokenSource& texts, const std::filesystem::path& path, Communicator& comm,
              const std::function<void()>& after_batch = {}) const;

 private:
  Matrix encode(std::span<const std::string> texts, const Tokenizer& tokenizer,
                Communicator& comm) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
