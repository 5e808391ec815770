#pragma once
// Text to token ids. One tokenizer serves all threads: everything that changes while encoding lives
// in a TokenizerScratch.
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

// The special tokens around two texts given together: [CLS] A [SEP] B [SEP] of BERT, <s> A </s></s>
// B </s> of RoBERTa.
struct PairTemplate {
  struct Special {
    std::int32_t id = 0, segment = 0;
    bool operator==(const Special&) const = default;
  };
  std::vector<Special> before, between, after;         // before A between B after
  std::int32_t first_segment = 0, second_segment = 0;  // of the tokens of A and of B
  std::int64_t specials() const {
    return std::ssize(before) + std::ssize(between) + std::ssize(after);
  }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, without special tokens around it. Bytes that are not UTF-8 count as
  // U+FFFD, as Python's errors="replace" decodes them. Safe from many threads at once.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // The same with buffers of the caller: what a thread that encodes many documents uses.
  virtual void encode_with(TokenizerScratch& scratch, std::string_view text,
                           std::vector<std::int32_t>& ids) const;
  virtual std::unique_ptr<TokenizerScratch> make_scratch() const;

  virtual std::int64_t vocabulary_size() const = 0;  // highest id + 1, added tokens included
  // -1: there is none. One text is given to the model as cls text sep: [CLS], [SEP] of BERT, <s>,
  // </s> of RoBERTa; T5 has only the end (</s>), GPT-2 neither.
  virtual std::int32_t cls_id() const = 0;
  virtual std::int32_t sep_id() const = 0;
  virtual std::int32_t pad_id() const = 0;
  virtual std::int32_t unk_id() const = 0;
  virtual std::int32_t mask_id() const = 0;
  virtual PairTemplate pair_template() const;  // BERT's unless overridden
  virtual std::string fingerprint()
      const = 0;  // 32 hex digits over vocabulary and settings: equal means equal ids
};

// Finds out what a Hugging Face model folder holds: tokenizer.json (WordPiece, byte-level BPE,
// Unigram), else vocab.txt (BERT), else vocab.json with merges.txt (RoBERTa, GPT-2, DeBERTa), else
// spm.model, spiece.model or sentencepiece.bpe.model (DeBERTa v2 and v3, T5, XLM-RoBERTa), with the
// names in tokenizer_config.json. input_error (exit 65) with one sentence for anything malformed or
// not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder);

// A tokenizer.json held in memory; `where` names it in errors.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& where);

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text);

// The first ids of a document that fit into `max_length` together with [CLS] and [SEP] (Hugging
// Face's truncation to the right).
std::span<const std::int32_t> truncated(std::span<const std::int32_t> ids, std::int64_t max_length);

// cls ids sep (those that there are), at most `max_length` long: the input of an encoder.
std::vector<std::int32_t> with_specials(const Tokenizer& tokenizer,
                                        std::span<const std::int32_t> ids, std::int64_t max_length);

// Two texts as one input, at most `max_length` long: the first is cut at its end (Hugging Face's
// truncation="only_first"), the second stays whole. configuration_error when the second leaves no
// room for a token of the first.
struct TokenPair {
  std::vector<std::int32_t> ids, segments;  // equally long
};
TokenPair paired(const PairTemplate& pair, std::span<const std::int32_t> first,
                 std::span<const std::int32_t> second, std::int64_t max_length);

}  // namespace gpuhpc
