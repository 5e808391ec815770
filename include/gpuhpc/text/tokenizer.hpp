#pragma once
// Text to token ids. One tokenizer serves all threads: everything that changes while encoding lives in a TokenizerScratch.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

// Buffers and word cache of one thread (about 2 MiB). Belongs to the tokenizer that made it.
class TokenizerScratch {
 public:
  TokenizerScratch() = default;
  TokenizerScratch(const TokenizerScratch&) = delete;
  TokenizerScratch& operator=(const TokenizerScratch&) = delete;
  virtual ~TokenizerScratch() = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, without [CLS] and [SEP]. Bytes that are not UTF-8 count as U+FFFD, as Python's
  // errors="replace" decodes them. Safe from many threads at once.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // The same with buffers of the caller: what a thread that encodes many documents uses.
  virtual void encode_with(TokenizerScratch& scratch, std::string_view text, std::vector<std::int32_t>& ids) const;
  virtual std::unique_ptr<TokenizerScratch> make_scratch() const;

  virtual std::int64_t vocabulary_size() const = 0;  // highest id + 1, added tokens included
  virtual std::int32_t cls_id() const = 0;
  virtual std::int32_t sep_id() const = 0;
  virtual std::int32_t pad_id() const = 0;   // -1: the vocabulary has none
  virtual std::int32_t unk_id() const = 0;
  virtual std::int32_t mask_id() const = 0;  // -1: the vocabulary has none
  virtual std::string fingerprint() const = 0;  // 32 hex digits over vocabulary and settings: equal means equal ids
};

// tokenizer.json, else vocab.txt with tokenizer_config.json, of a Hugging Face model folder. input_error (exit 65) with one
// sentence for anything malformed or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder);

// The first ids of a document that fit into `max_length` together with [CLS] and [SEP] (Hugging Face's truncation to the right).
std::span<const std::int32_t> truncated(std::span<const std::int32_t> ids, std::int64_t max_length);

// [CLS] ids [SEP], at most `max_length` long: the input of a BERT encoder.
std::vector<std::int32_t> with_specials(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::int64_t max_length);

}  // namespace gpuhpc
