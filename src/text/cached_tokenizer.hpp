#pragma once
// A tokenizer of whole texts around a model (ByteBpe, Unigram), in the order of Hugging Face
// tokenizers: added tokens of the raw text, normalisation of what lies between, added tokens of the
// normalised text, words, ids from a cache or from the model.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "scratch_pool.hpp"
#include "text_normalizer.hpp"
#include "word_cache.hpp"

namespace gpuhpc {

// Everything of a tokenizer but its model.
struct TokenizerParts {
  TextNormalizer normalizer;
  std::vector<AddedToken> added, normalized_added;  // looked for in raw and in normalised text
  std::int32_t cls = -1, sep = -1, pad = -1, unk = -1, mask = -1;
  PairTemplate pair;
  std::int64_t vocabulary_size = 0;
  std::string fingerprint;  // of these parts; the model's is added
};

template <typename Model>
class CachedTokenizer final : public Tokenizer {
 public:
  CachedTokenizer(Model model, TokenizerParts parts)
      : model_(std::move(model)),
        parts_(std::move(parts)),
        added_(parts_.added),
        normalized_added_(parts_.normalized_added) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const auto scratch = pool_->lease(*this);
    encode_text(*scratch, text, ids);
  }
  void encode_with(TokenizerScratch& scratch, std::string_view text,
                   std::vector<std::int32_t>& ids) const override {
    auto* own = dynamic_cast<Scratch*>(&scratch);
    if (own == nullptr || own->owner != this)
      throw internal_error("this scratch belongs to another tokenizer");
    encode_text(*own, text, ids);
  }
  std::unique_ptr<TokenizerScratch> make_scratch() const override {
    return std::make_unique<Scratch>(*this);
  }

  std::int64_t vocabulary_size() const override { return parts_.vocabulary_size; }
  std::int32_t cls_id() const override { return parts_.cls; }
  std::int32_t sep_id() const override { return parts_.sep; }
  std::int32_t pad_id() const override { return parts_.pad; }
  std::int32_t unk_id() const override { return parts_.unk; }
  std::int32_t mask_id() const override { return parts_.mask; }
  PairTemplate pair_template() const override { return parts_.pair; }
  std::string fingerprint() const override { return parts_.fingerprint; }

 private:
  struct Scratch final : TokenizerScratch {
    explicit Scratch(const CachedTokenizer& tokenizer) : owner(&tokenizer) {}
    const CachedTokenizer* owner;
    std::string text, piece;
    TextNormalizer::Buffers normalizer;
    WordCache cache;
    typename Model::Work work;
    std::vector<std::int32_t> word_ids;
  };

  void encode_text(Scratch& scratch, std::string_view text, std::vector<std::int32_t>& ids) const {
    if (find_invalid_utf8(text) != std::string_view::npos)
      text = replace_invalid(text, scratch.text);
    split_added(added_, text, ids, [&](std::string_view raw) {
      const std::string_view normalized = parts_.normalizer.apply(raw, scratch.normalizer);
      split_added(normalized_added_, normalized, ids,
                  [&](std::string_view piece) { encode_piece(scratch, piece, ids); });
    });
  }

  template <typename Between>
  static void split_added(const AddedTokens& tokens, std::string_view text,
                          std::vector<std::int32_t>& ids, Between&& between) {
    std::size_t from = 0;
    AddedTokens::Found found{};
    while (tokens.find(text, from, found)) {
      if (found.begin > from) between(text.substr(from, found.begin - from));
      ids.push_back(found.id);
      from = found.end;
    }
    if (from < text.size()) between(text.substr(from));
  }

  void encode_piece(Scratch& scratch, std::string_view piece,
                    std::vector<std::int32_t>& ids) const {
    if (piece.empty()) return;
    scratch.piece.clear();
    model_.prepare(piece, scratch.piece);
    const std::size_t size = scratch.piece.size();
    scratch.piece.append(WordCache::longest_word, '\0');  // keys are read 16 bytes at a time
    const std::string_view text(scratch.piece.data(), size);
    const bool has_nul =
        std::memchr(text.data(), 0, size) != nullptr;  // keys are filled up with NULs
    Model::split(text, [&](std::size_t begin, std::size_t end) {
      const std::string_view word = text.substr(begin, end - begin);
      if (word.size() > WordCache::longest_word ||
          (has_nul && word.find('\0') != std::string_view::npos)) {
        model_.encode_word(word, scratch.work, ids);
        return;
      }
      const WordKey key = WordCache::key(word.data(), word.size());
      if (const WordCache::Entry* known = scratch.cache.find(key)) {
        const auto known_ids = scratch.cache.ids(*known);
        ids.insert(ids.end(), known_ids.begin(), known_ids.end());
        return;
      }
      scratch.word_ids.clear();
      model_.encode_word(word, scratch.work, scratch.word_ids);
      scratch.cache.insert(key, scratch.word_ids);
      ids.insert(ids.end(), scratch.word_ids.begin(), scratch.word_ids.end());
    });
  }

  static std::string_view replace_invalid(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t at = 0; at < text.size();) {
      char utf8[4];
      out.append(utf8, static_cast<std::size_t>(put_code_point(next_code_point(text, at), utf8)));
    }
    return out;
  }

  Model model_;
  TokenizerParts parts_;
  AddedTokens added_, normalized_added_;
  std::unique_ptr<ScratchPool<Scratch>> pool_ = std::make_unique<ScratchPool<Scratch>>();
};

}  // namespace gpuhpc
