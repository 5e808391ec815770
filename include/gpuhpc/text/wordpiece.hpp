#pragma once
// BERT's WordPiece with ids equal to those of Hugging Face's fast BertTokenizer (tokenizers 0.23):
// BertNormalizer, BertPreTokenizer, greedy longest match (Wu et al. 2016, section 4.1), literal
// special tokens kept whole.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

struct NormalizerSettings {
  bool clean_text = true;            // drop control characters, every white space becomes a space
  bool handle_chinese_chars = true;  // each CJK ideograph is a word
  bool strip_accents = true;
  bool lowercase = true;
};

// A token that is recognised as it stands, before the text is cut into words.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text, else in the raw text
};

struct WordPieceSettings {
  NormalizerSettings normalizer;
  std::string unk_token = "[UNK]", cls_token = "[CLS]", sep_token = "[SEP]", pad_token = "[PAD]",
              mask_token = "[MASK]";
  std::optional<PairTemplate> pair;  // absent: BERT's
  std::string continuing_subword_prefix = "##";
  std::int64_t max_input_chars_per_word = 100;  // a longer word is one [UNK]
};

struct VocabularyEntry {
  std::string token;
  std::int32_t id = 0;
};

class WordPieceTokenizer final : public Tokenizer {
 public:
  // `where` names the file in errors. input_error: no entries, a token or an id twice, [UNK], [CLS]
  // or [SEP] missing.
  WordPieceTokenizer(std::vector<VocabularyEntry> vocabulary, std::vector<AddedToken> added,
                     WordPieceSettings settings, const std::string& where);
  ~WordPieceTokenizer() override;

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_with(TokenizerScratch& scratch, std::string_view text,
                   std::vector<std::int32_t>& ids) const override;
  std::unique_ptr<TokenizerScratch> make_scratch() const override;

  // The normalised words that WordPiece would split (special tokens are not looked for): for tests
  // and for looking at a corpus.
  std::vector<std::string> words(std::string_view text) const;

  std::int64_t vocabulary_size() const override;
  std::int32_t cls_id() const override;
  std::int32_t sep_id() const override;
  std::int32_t pad_id() const override;
  std::int32_t unk_id() const override;
  std::int32_t mask_id() const override;
  PairTemplate pair_template() const override;
  std::string fingerprint() const override;
  const WordPieceSettings& settings() const;

 private:
  struct Model;
  struct Scratch;
  struct Pool;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Pool> pool_;
};

// A vocab.txt held in memory (one token a line, id = line number from 0).
std::unique_ptr<WordPieceTokenizer> parse_vocabulary(std::string_view text,
                                                     const WordPieceSettings& settings,
                                                     const std::string& where);

}  // namespace gpuhpc
