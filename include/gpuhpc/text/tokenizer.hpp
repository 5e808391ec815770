#pragma once
// Text to token ids and back. One tokenizer serves all threads: everything that changes while
// encoding lives in a TokenizerScratch.
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

// The special tokens around one text: [CLS] text [SEP] of BERT, text </s> of T5, none of GPT-2.
struct TextTemplate {
  std::vector<std::int32_t> before, after;
  std::int64_t specials() const { return std::ssize(before) + std::ssize(after); }
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

struct SpecialTokens {
  TextTemplate single;
  PairTemplate pair;
  std::int32_t pad = -1, unk = -1, mask = -1, eos = -1;  // -1: there is none
  std::vector<std::int32_t> ids;                         // all special tokens, ascending
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

  // The text of `ids`, equal to Hugging Face tokenizers' decode; ids that there are not say
  // nothing.
  virtual std::string decode(std::span<const std::int32_t> ids,
                             bool skip_special_tokens = true) const = 0;

  virtual std::int64_t vocabulary_size() const = 0;  // highest id + 1, added tokens included
  virtual const SpecialTokens& special() const = 0;
  virtual std::string fingerprint()
      const = 0;  // 32 hex digits over vocabulary and settings: equal means equal ids
};

// Finds out what a Hugging Face model folder holds: tokenizer.json (WordPiece, byte-level BPE,
// Unigram), else vocab.txt (BERT, MPNet), else vocab.json with merges.txt (RoBERTa, GPT-2,
// DeBERTa), else spm.model, spiece.model or sentencepiece.bpe.model (DeBERTa v2 and v3, T5, mT5,
// XLM-RoBERTa), with the names in tokenizer_config.json. input_error (exit 65) with one sentence
// for anything malformed or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder);

// A tokenizer.json held in memory; `where` names it in errors.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& where);

// The same behind a text that is put before every other; empty: `tokenizer` as it is. The prompt is
// part of the fingerprint.
std::unique_ptr<Tokenizer> behind_prompt(std::unique_ptr<Tokenizer> tokenizer, std::string prompt);

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text);

// Two texts as one input, at most `max_length` long: the first is cut at its end (Hugging Face's
// truncation="only_first"), the second stays whole. configuration_error when the second leaves no
// room for a token of the first.
struct TokenPair {
  std::vector<std::int32_t> ids, segments;  // equally long
};
TokenPair paired(const PairTemplate& pair, std::span<const std::int32_t> first,
                 std::span<const std::int32_t> second, std::int64_t max_length);

}  // namespace gpuhpc
