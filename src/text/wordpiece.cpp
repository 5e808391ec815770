#include "gpuhpc/text/wordpiece.hpp"

#include <algorithm>

#include "added_tokens.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "normalizer.hpp"
#include "scan.hpp"
#include "scratch_pool.hpp"
#include "token_trie.hpp"
#include "vocabulary.hpp"
#include "word_cache.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t piece_bytes =
    4096;  // of text, scanned at a time: all buffers stay in the first-level cache

}  // namespace

struct WordPieceTokenizer::Model {
  Model(const std::vector<VocabularyEntry>& vocabulary, std::vector<AddedToken> added_tokens,
        WordPieceSettings s, const std::string& where);

  void encode(Scratch& scratch, std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_segment(Scratch& scratch, std::string_view segment,
                      std::vector<std::int32_t>& ids) const;
  template <bool odd>
  void encode_piece(Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_run(Scratch& scratch, std::string_view run, std::vector<std::int32_t>& ids) const;
  void match(std::string_view word, std::size_t characters, std::vector<std::int32_t>& ids) const;

  WordPieceSettings settings;
  AddedTokens added;
  TokenTrie initial, continuing;
  std::int64_t highest = 0;  // id, plus one
  std::int32_t unk = -1, cls = -1, sep = -1, pad = -1, mask = -1;
  std::string fingerprint;

 private:
  void name_special_ids(const std::vector<VocabularyEntry>& vocabulary, const std::string& where);
  void take_fingerprint(const std::vector<VocabularyEntry>& vocabulary);
};

struct WordPieceTokenizer::Scratch final : TokenizerScratch {
  explicit Scratch(const Model& model)
      : owner(&model), normalizer(model.settings.normalizer), out(3 * piece_bytes + 16) {}
  const Model* owner;
  Scan scan;
  NormalizerScratch normalizer;
  WordCache cache;
  std::vector<std::int32_t> out;  // three ids a byte at most
  std::vector<std::int32_t> word_ids;
};

struct WordPieceTokenizer::Pool : ScratchPool<Scratch> {};

void WordPieceTokenizer::Model::match(std::string_view word, std::size_t characters,
                                      std::vector<std::int32_t>& ids) const {
  if (static_cast<std::int64_t>(characters) > settings.max_input_chars_per_word) {
    ids.push_back(unk);
    return;
  }
  const std::size_t before = ids.size();
  auto match = initial.longest(word.data(), word.size());
  std::size_t at = 0;
  while (match.id >= 0) {
    ids.push_back(match.id);
    at += match.length;
    if (at == word.size()) return;
    match = continuing.longest(word.data() + at, word.size() - at);
  }
  ids.resize(before);
  ids.push_back(unk);
}

void WordPieceTokenizer::Model::encode_run(Scratch& scratch, std::string_view run,
                                           std::vector<std::int32_t>& ids) const {
  scratch.normalizer.split(
      run, [&](std::string_view word, std::size_t characters) { match(word, characters, ids); });
}

// Straight line for words of up to 16 bytes: mask, hash, compare, copy. `odd`: the piece holds
// bytes that are not plain ASCII text.
template <bool odd>
void WordPieceTokenizer::Model::encode_piece(Scratch& scratch,
                                             std::vector<std::int32_t>& ids) const {
  const Scan& scan = scratch.scan;
  std::int32_t* const begin = scratch.out.data();
  std::int32_t* to = begin;
  for (std::size_t b = 0; b < scan.blocks(); ++b) {
    for (std::uint64_t starts = scan.starts(b); starts != 0; starts &= starts - 1) {
      const std::size_t at = b * Scan::block + static_cast<std::size_t>(std::countr_zero(starts));
      const std::size_t end = scan.end_of(at), length = end - at;
      const char* text = scan.text() + at;
      const bool is_odd = odd && scan.is_odd(at, end);
      const bool fits =
          length <= WordCache::longest_word && !(is_odd && std::memchr(text, 0, length) != nullptr);
      WordKey key;
      if (fits) [[likely]] {
        key = WordCache::key(text, length);
        const WordCache::Entry* known = scratch.cache.find(key);
        if (known != nullptr) [[likely]] {
          if (known->count <= WordCache::inline_ids) [[likely]] {
            std::memcpy(to, known->ids, sizeof(known->ids));
            to += known->count;
            continue;
          }
          if (!is_odd) {
            const auto more = scratch.cache.ids(*known);
            to = std::copy(more.begin(), more.end(), to);
            continue;
          }
        }
      }
      scratch.word_ids.clear();
      if (is_odd) {
        encode_run(scratch, {text, length}, scratch.word_ids);
      } else {
        match({text, length}, length, scratch.word_ids);
      }
      if (fits) scratch.cache.insert(key, scratch.word_ids);
      if (is_odd) {  // may be longer than its bytes
        ids.insert(ids.end(), begin, to);
        ids.insert(ids.end(), scratch.word_ids.begin(), scratch.word_ids.end());
        to = begin;
      } else {
        to = std::copy(scratch.word_ids.begin(), scratch.word_ids.end(), to);
      }
    }
  }
  ids.insert(ids.end(), begin, to);
}

void WordPieceTokenizer::Model::encode_segment(Scratch& scratch, std::string_view segment,
                                               std::vector<std::int32_t>& ids) const {
  while (!segment.empty()) {
    std::size_t size = segment.size();
    if (size > piece_bytes) {
      size = piece_bytes;
      while (size > 0 && !is_ascii_delimiter(segment[size - 1])) --size;
    }
    if (size == 0) {  // one run fills more than a piece
      size = static_cast<std::size_t>(
          std::find_if(segment.begin(), segment.end(), is_ascii_delimiter) - segment.begin());
      encode_run(scratch, segment.substr(0, size), ids);
    } else {
      scratch.scan.run(segment.substr(0, size), settings.normalizer.lowercase);
      scratch.scan.any_odd() ? encode_piece<true>(scratch, ids) : encode_piece<false>(scratch, ids);
    }
    segment.remove_prefix(size);
  }
}

void WordPieceTokenizer::Model::encode(Scratch& scratch, std::string_view text,
                                       std::vector<std::int32_t>& ids) const {
  std::size_t from = 0;
  AddedTokens::Found found{};
  while (added.find(text, from, found)) {
    encode_segment(scratch, text.substr(from, found.begin - from), ids);
    ids.push_back(found.id);
    from = found.end;
  }
  encode_segment(scratch, text.substr(from), ids);
}

WordPieceTokenizer::Model::Model(const std::vector<VocabularyEntry>& vocabulary,
                                 std::vector<AddedToken> added_tokens, WordPieceSettings s,
                                 const std::string& where)
    : settings(std::move(s)), added(std::move(added_tokens)) {
  check_vocabulary(vocabulary, where);
  if (settings.max_input_chars_per_word < 1)
    throw input_error("{}: \"max_input_chars_per_word\" must be at least 1", where);
  std::vector<std::pair<std::string_view, std::int32_t>> heads, tails;
  const std::string_view prefix = settings.continuing_subword_prefix;
  for (const auto& [token, id] : vocabulary) {
    highest = std::max(highest, std::int64_t{id} + 1);
    // A word has at most max_input_chars_per_word characters of at most four bytes: longer tokens
    // can never match.
    if (static_cast<std::int64_t>(token.size()) >
        4 * settings.max_input_chars_per_word + static_cast<std::int64_t>(prefix.size()))
      continue;
    heads.emplace_back(token, id);
    if (token.size() > prefix.size() && std::string_view(token).starts_with(prefix))
      tails.emplace_back(std::string_view(token).substr(prefix.size()), id);
  }
  for (const auto& token : added.tokens()) highest = std::max(highest, std::int64_t{token.id} + 1);
  name_special_ids(vocabulary, where);
  initial = TokenTrie(std::move(heads));
  continuing = TokenTrie(std::move(tails));
  take_fingerprint(vocabulary);
}

void WordPieceTokenizer::Model::name_special_ids(const std::vector<VocabularyEntry>& vocabulary,
                                                 const std::string& where) {
  const TokenIds id_of(vocabulary, added.tokens());
  unk = id_of(settings.unk_token), cls = id_of(settings.cls_token), sep = id_of(settings.sep_token);
  pad = id_of(settings.pad_token), mask = id_of(settings.mask_token);
  for (const auto& [id, token] : {std::pair{unk, &settings.unk_token},
                                  {cls, &settings.cls_token},
                                  {sep, &settings.sep_token}}) {
    if (id < 0)
      throw input_error(
          "{}: the vocabulary has no {}, which BERT input needs; take the file of the model again",
          where, *token);
  }
}

void WordPieceTokenizer::Model::take_fingerprint(const std::vector<VocabularyEntry>& vocabulary) {
  std::vector<const VocabularyEntry*> sorted;
  for (const auto& entry : vocabulary) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  Fingerprint print;
  print.add("wordpiece 1");
  for (const auto* entry : sorted) print.add(entry->token).add(std::int64_t{entry->id});
  for (const auto& t : added.tokens())
    print.add(t.content).add(std::int64_t{t.id} * 8 + t.single_word * 4 + t.lstrip * 2 + t.rstrip);
  const NormalizerSettings& n = settings.normalizer;
  print.add(std::int64_t{n.clean_text * 8 + n.handle_chinese_chars * 4 + n.strip_accents * 2 +
                         n.lowercase});
  print.add(settings.continuing_subword_prefix).add(settings.max_input_chars_per_word);
  for (const std::int32_t id : {unk, cls, sep, pad, mask}) print.add(std::int64_t{id});
  fingerprint = print.hex();
}

WordPieceTokenizer::WordPieceTokenizer(std::vector<VocabularyEntry> vocabulary,
                                       std::vector<AddedToken> added, WordPieceSettings settings,
                                       const std::string& where)
    : model_(std::make_unique<Model>(vocabulary, std::move(added), std::move(settings), where)),
      pool_(std::make_unique<Pool>()) {}

WordPieceTokenizer::~WordPieceTokenizer() = default;

std::unique_ptr<TokenizerScratch> WordPieceTokenizer::make_scratch() const {
  return std::make_unique<Scratch>(*model_);
}

void WordPieceTokenizer::encode_with(TokenizerScratch& scratch, std::string_view text,
                                     std::vector<std::int32_t>& ids) const {
  auto* own = dynamic_cast<Scratch*>(&scratch);
  if (own == nullptr || own->owner != model_.get())
    throw internal_error("this scratch belongs to another tokenizer");
  model_->encode(*own, text, ids);
}

void WordPieceTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto lease = pool_->lease(*model_);
  model_->encode(*lease, text, ids);
}

std::vector<std::string> WordPieceTokenizer::words(std::string_view text) const {
  const auto lease = pool_->lease(*model_);
  std::vector<std::string> result;
  (*lease).normalizer.split(text,
                            [&](std::string_view word, std::size_t) { result.emplace_back(word); });
  return result;
}

std::int64_t WordPieceTokenizer::vocabulary_size() const { return model_->highest; }
std::int32_t WordPieceTokenizer::cls_id() const { return model_->cls; }
std::int32_t WordPieceTokenizer::sep_id() const { return model_->sep; }
std::int32_t WordPieceTokenizer::pad_id() const { return model_->pad; }
std::int32_t WordPieceTokenizer::unk_id() const { return model_->unk; }
std::int32_t WordPieceTokenizer::mask_id() const { return model_->mask; }
PairTemplate WordPieceTokenizer::pair_template() const {
  return model_->settings.pair.value_or(Tokenizer::pair_template());
}
std::string WordPieceTokenizer::fingerprint() const { return model_->fingerprint; }
const WordPieceSettings& WordPieceTokenizer::settings() const { return model_->settings; }

}  // namespace gpuhpc
