#pragma once
// A tokenizer of whole texts around an encoder of what lies between added tokens (WordPiece, or
// NormalizedWords around ByteBpe and Unigram), in the order of Hugging Face tokenizers: added
// tokens of the raw text, normalisation of what lies between, added tokens of the normalised text,
// words, ids from a cache or from the model.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "tokenizer_parts.hpp"

namespace gpuhpc {

// A word of 1 to 16 bytes, none of them NUL, filled up with NULs.
struct WordKey {
  std::uint64_t low = 0, high = 0;
  bool operator==(const WordKey&) const = default;
};

// Keeps the first n bytes of a key.
inline constexpr auto word_key_masks = [] {
  std::array<WordKey, 17> masks{};
  const auto ones = [](std::size_t bytes) {
    return bytes == 0 ? 0 : ~std::uint64_t{0} >> (64 - 8 * bytes);
  };
  for (std::size_t n = 0; n < masks.size(); ++n)
    masks[n] = {ones(std::min<std::size_t>(n, 8)), ones(n > 8 ? n - 8 : 0)};
  return masks;
}();

// Ids of the words met before: words of up to 16 bytes, two candidates in one cache line, fixed
// size, oldest out.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 16;
  // 16 bytes are read from `text` whatever the length.
  static WordKey key(const char* text, std::size_t length) {
    WordKey key;
    std::memcpy(&key.low, text, 8);
    std::memcpy(&key.high, text + 8, 8);
    key.low &= word_key_masks[length].low;
    key.high &= word_key_masks[length].high;
    return key;
  }
  static constexpr std::uint32_t inline_ids = 3;

  struct Entry {
    WordKey key;  // low == 0: empty
    std::int32_t ids[inline_ids] = {0, 0,
                                    0};  // more than three: ids[0] is their place in the arena
    std::uint32_t count = 0;
  };
  static_assert(sizeof(Entry) == 32);

  WordCache() : buckets_(std::size_t{1} << bucket_bits) {}

  const Entry* find(const WordKey& key) const {
    const Bucket& bucket = buckets_[place(key)];
    const Entry* entry = &bucket.entries[bucket.entries[1].key == key ? 1 : 0];
    return entry->key == key ? entry : nullptr;
  }
  std::span<const std::int32_t> ids(const Entry& entry) const {
    return {entry.count <= inline_ids ? entry.ids : arena_.data() + entry.ids[0], entry.count};
  }
  void insert(const WordKey& key, std::span<const std::int32_t> ids) {
    if (arena_.size() > arena_limit) {
      arena_.clear();
      buckets_.assign(buckets_.size(), Bucket{});
    }
    Entry entry;
    entry.key = key;
    entry.count = static_cast<std::uint32_t>(ids.size());
    if (ids.size() <= inline_ids) {
      std::copy(ids.begin(), ids.end(), entry.ids);
    } else {
      entry.ids[0] = static_cast<std::int32_t>(arena_.size());
      arena_.insert(arena_.end(), ids.begin(), ids.end());
    }
    Bucket& bucket = buckets_[place(key)];
    bucket.entries[1] = bucket.entries[0];
    bucket.entries[0] = entry;
  }

 private:
  struct alignas(64) Bucket {
    std::array<Entry, 2> entries;
  };
  static constexpr int bucket_bits = 15;  // 2 MiB
  static constexpr std::size_t arena_limit = std::size_t{1} << 18;
  static std::size_t place(const WordKey& key) {
    std::uint64_t h = key.low * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 32)) + key.high * 0xC2B2AE3D27D4EB4Fu;
    h = (h ^ (h >> 29)) * 0xD6E8FEB86659FD93u;
    return h >> (64 - bucket_bits);
  }
  std::vector<Bucket> buckets_;
  std::vector<std::int32_t> arena_;
};

// Everything of a tokenizer but its encoder.
struct TokenizerParts {
  std::vector<AddedToken> added, normalized_added;  // looked for in raw and in normalised text
  SpecialTokens special;
  std::vector<VocabularyEntry> tokens;  // added ones included, by ascending id
  TokenDecoder decoder;
  std::string fingerprint;

  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;
};
// `model_print`: fingerprint of the model; `normalize`: what becomes of a token that is looked for
// in normalised text.
TokenizerParts make_parts(std::vector<VocabularyEntry> vocabulary, const std::string& model_print,
                          TokenizerDescription description, const std::string& where,
                          const std::function<std::string(std::string_view)>& normalize);

// Calls between(piece) for what stands between the tokens found, which become ids.
template <typename Between>
void split_added(const AddedTokens& tokens, std::string_view text, std::vector<std::int32_t>& ids,
                 Between&& between) {
  std::size_t from = 0;
  AddedTokens::Found found{};
  while (tokens.find(text, from, found)) {
    if (found.begin > from) between(text.substr(from, found.begin - from));
    ids.push_back(found.id);
    from = found.end;
  }
  if (from < text.size()) between(text.substr(from));
}

// Encoder: struct Work (of one thread), encode(Work&, piece, ids), wants_utf8: broken bytes are
// replaced before.
template <typename Encoder>
class TextTokenizer final : public Tokenizer {
 public:
  TextTokenizer(Encoder encoder, TokenizerParts parts)
      : encoder_(std::move(encoder)), parts_(std::move(parts)), added_(parts_.added) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    auto scratch = take_scratch();
    encode_text(*scratch, text, ids);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(scratch));
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
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override {
    return parts_.decode(ids, skip_special_tokens);
  }
  std::int64_t vocabulary_size() const override {
    return std::int64_t{parts_.tokens.back().id} + 1;
  }
  const SpecialTokens& special() const override { return parts_.special; }
  std::string fingerprint() const override { return parts_.fingerprint; }

 private:
  struct Scratch final : TokenizerScratch {
    explicit Scratch(const TextTokenizer& tokenizer)
        : owner(&tokenizer), work(tokenizer.encoder_) {}
    const TextTokenizer* owner;
    std::string text;
    typename Encoder::Work work;
  };

  // For callers that bring none; as many are kept as there were callers at once.
  std::unique_ptr<Scratch> take_scratch() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>(*this);
  }

  void encode_text(Scratch& scratch, std::string_view text, std::vector<std::int32_t>& ids) const {
    if (Encoder::wants_utf8 && find_invalid_utf8(text) != std::string_view::npos) {
      scratch.text.clear();
      append_valid_utf8(text, scratch.text);
      text = scratch.text;
    }
    split_added(added_, text, ids,
                [&](std::string_view piece) { encoder_.encode(scratch.work, piece, ids); });
  }

  Encoder encoder_;
  TokenizerParts parts_;
  AddedTokens added_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

// The encoder around a model that is asked for one word after another.
template <typename Model>
class NormalizedWords {
 public:
  static constexpr bool wants_utf8 = true;
  NormalizedWords(Model model, TextNormalizer normalizer, std::vector<AddedToken> added)
      : model_(std::move(model)), normalizer_(std::move(normalizer)), added_(std::move(added)) {}

  struct Work {
    explicit Work(const NormalizedWords&) {}
    std::string piece;
    TextNormalizer::Buffers normalizer;
    WordCache cache;
    typename Model::Work model;
    std::vector<std::int32_t> word_ids;
  };

  void encode(Work& work, std::string_view raw, std::vector<std::int32_t>& ids) const {
    split_added(added_, normalizer_.apply(raw, work.normalizer), ids,
                [&](std::string_view piece) { encode_piece(work, piece, ids); });
  }

 private:
  void encode_piece(Work& work, std::string_view piece, std::vector<std::int32_t>& ids) const {
    work.piece.clear();
    model_.prepare(piece, work.piece);
    const std::size_t size = work.piece.size();
    work.piece.append(WordCache::longest_word, '\0');  // keys are read 16 bytes at a time
    const std::string_view text(work.piece.data(), size);
    // keys are filled up with NULs
    const bool has_nul = std::memchr(text.data(), 0, size) != nullptr;
    Model::split(text, [&](std::size_t begin, std::size_t end) {
      const std::string_view word = text.substr(begin, end - begin);
      if (word.size() > WordCache::longest_word ||
          (has_nul && word.find('\0') != std::string_view::npos)) {
        model_.encode_word(word, work.model, ids);
        return;
      }
      const WordKey key = WordCache::key(word.data(), word.size());
      if (const WordCache::Entry* known = work.cache.find(key)) {
        const auto known_ids = work.cache.ids(*known);
        ids.insert(ids.end(), known_ids.begin(), known_ids.end());
        return;
      }
      work.word_ids.clear();
      model_.encode_word(word, work.model, work.word_ids);
      work.cache.insert(key, work.word_ids);
      ids.insert(ids.end(), work.word_ids.begin(), work.word_ids.end());
    });
  }

  Model model_;
  TextNormalizer normalizer_;
  AddedTokens added_;
};

template <typename Model>
std::unique_ptr<Tokenizer> make_word_tokenizer(Model model, std::vector<VocabularyEntry> vocabulary,
                                               TokenizerDescription description,
                                               const std::string& where) {
  TextNormalizer normalizer(std::move(description.normalizer));
  TextNormalizer::Buffers buffers;
  TokenizerParts parts = make_parts(
      std::move(vocabulary), model.fingerprint() + normalizer.fingerprint(), std::move(description),
      where, [&](std::string_view token) { return std::string(normalizer.apply(token, buffers)); });
  NormalizedWords<Model> words(std::move(model), std::move(normalizer), parts.normalized_added);
  return std::make_unique<TextTokenizer<NormalizedWords<Model>>>(std::move(words),
                                                                 std::move(parts));
}

}  // namespace gpuhpc
