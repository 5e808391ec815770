// BERT's WordPiece.
#include <algorithm>
#include <bit>

#include "gpuhpc/io/checksum.hpp"
#include "text_tokenizer.hpp"

namespace gpuhpc {
namespace {

// of text at a time: all buffers stay in the first-level cache
constexpr std::size_t scanned_bytes = 4096;

// First pass over a piece of text: lower-cases ASCII letters and marks, bit by bit, where tokens
// begin and end.
// A token is one ASCII punctuation byte, or a run of bytes that are neither ASCII punctuation nor
// ASCII space. A run with a control character or a byte above 0x7F is "odd": its words depend on
// Unicode and on the settings.
class Scan {
 public:
  static constexpr std::size_t block = 64;

  void run(std::string_view piece, bool lowercase);

  bool any_odd() const { return any_odd_; }
  std::size_t blocks() const { return blocks_; }
  std::uint64_t starts(std::size_t b) const { return starts_[b]; }
  // Bytes may be read up to 16 beyond the piece.
  const char* text() const { return text_.data(); }
  // End of the token that begins at `position`.
  std::size_t end_of(std::size_t position) const {
    const std::uint64_t window = bits_from(ends_, position + 1);
    return window != 0 ? position + 1 + static_cast<std::size_t>(std::countr_zero(window))
                       : far_end_of(position + 1);
  }
  bool is_odd(std::size_t begin, std::size_t end) const {
    if (end - begin > 56) return far_odd(begin, end);
    return (bits_from(odd_, begin) & ((std::uint64_t{1} << (end - begin)) - 1)) != 0;
  }

 private:
  // At least 57 bits from bit `position` on; little-endian machines only, as everything here.
  static std::uint64_t bits_from(const std::vector<std::uint64_t>& bits, std::size_t position) {
    std::uint64_t window;
    std::memcpy(&window, reinterpret_cast<const char*>(bits.data()) + position / 8, sizeof(window));
    return window >> (position % 8);
  }
  std::size_t far_end_of(std::size_t position) const;
  bool far_odd(std::size_t begin, std::size_t end) const;

  std::vector<char> text_;
  std::vector<std::uint64_t> starts_, ends_, odd_;
  std::size_t blocks_ = 0;
  bool any_odd_ = false;
};

constexpr bool is_ascii_delimiter(char c) {
  const auto u = static_cast<unsigned char>(c);
  const auto folded = static_cast<unsigned char>(u | 0x20);
  if (u == '\t' || u == '\n' || u == '\r') return true;
  return u >= 0x20 && u < 0x7F && !(u >= '0' && u <= '9') && !(folded >= 'a' && folded <= 'z');
}

using Bytes = unsigned char
    __attribute__((vector_size(16)));  // the compiler's portable vectors: SSE2, NEON, ...

struct Marks {
  std::uint64_t delimiter = 0, punctuation = 0, odd = 0;
};

// One bit a byte, from bytes that are 0x00 or 0xFF.
std::uint64_t bit_mask(const unsigned char* flags) {
  std::uint64_t mask = 0;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, flags + 8 * i, 8);
    mask |= ((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) << (8 * i);
  }
  return mask;
}

Marks mark_block(const char* in, char* out, unsigned char case_bit) {
  alignas(16) unsigned char delimiter[64], punctuation[64], odd[64];
  for (int i = 0; i < 64; i += 16) {
    Bytes x;
    std::memcpy(&x, in + i, 16);
    const Bytes folded = x | 0x20;
    const Bytes letter = reinterpret_cast<Bytes>((folded - 'a') < 26);
    const Bytes digit = reinterpret_cast<Bytes>((x - '0') < 10);
    const Bytes space =
        reinterpret_cast<Bytes>((x == ' ') | (x == '\t') | (x == '\n') | (x == '\r'));
    const Bytes visible = reinterpret_cast<Bytes>((x - 0x21) < 0x5E);
    const Bytes lowered = x | (letter & case_bit);
    const Bytes marks = visible & ~(letter | digit);
    const Bytes cut = marks | space, rest = ~(visible | space);
    std::memcpy(out + i, &lowered, 16);
    std::memcpy(punctuation + i, &marks, 16);
    std::memcpy(delimiter + i, &cut, 16);
    std::memcpy(odd + i, &rest, 16);
  }
  return {bit_mask(delimiter), bit_mask(punctuation), bit_mask(odd)};
}

void Scan::run(std::string_view piece, bool lowercase) {
  blocks_ = (piece.size() + block - 1) / block;
  if (text_.size() < blocks_ * block + block) text_.resize(blocks_ * block + block);
  if (starts_.size() < blocks_ + 2)
    starts_.resize(blocks_ + 2), ends_.resize(blocks_ + 2), odd_.resize(blocks_ + 2);
  const unsigned char case_bit = lowercase ? 0x20 : 0;
  std::uint64_t before_word = 0, before_punctuation = 0,
                all_odd = 0;  // last bit of the block before
  for (std::size_t b = 0; b < blocks_; ++b) {
    const char* in = piece.data() + b * block;
    char padded[block];
    if (piece.size() - b * block < block) {
      std::memset(padded, ' ', block);
      std::memcpy(padded, in, piece.size() - b * block);
      in = padded;
    }
    const Marks marks = mark_block(in, text_.data() + b * block, case_bit);
    const std::uint64_t word = ~marks.delimiter;
    starts_[b] = marks.punctuation | (word & ~(word << 1 | before_word));
    ends_[b] = marks.delimiter | marks.punctuation << 1 | before_punctuation;
    odd_[b] = marks.odd;
    all_odd |= marks.odd;
    before_word = word >> 63;
    before_punctuation = marks.punctuation >> 63;
  }
  any_odd_ = all_odd != 0;
  for (std::size_t b = blocks_; b < blocks_ + 2; ++b) ends_[b] = ~std::uint64_t{0}, odd_[b] = 0;
}

std::size_t Scan::far_end_of(std::size_t position) const {
  std::size_t b = position / block;
  std::uint64_t bits = ends_[b] & (~std::uint64_t{0} << (position % block));
  while (bits == 0) bits = ends_[++b];
  return b * block + static_cast<std::size_t>(std::countr_zero(bits));
}

bool Scan::far_odd(std::size_t begin, std::size_t end) const {
  for (std::size_t at = begin; at < end; at += 56) {
    const std::size_t length = std::min<std::size_t>(56, end - at);
    if ((bits_from(odd_, at) & ((std::uint64_t{1} << length) - 1)) != 0) return true;
  }
  return false;
}

class WordPiece {
 public:
  static constexpr bool wants_utf8 = false;
  explicit WordPiece(const WordPieceSettings& settings);
  void look_for(std::vector<AddedToken> normalized) { added_ = AddedTokens(std::move(normalized)); }

  struct Work {
    explicit Work(const WordPiece& model)
        : words(model.settings_.words), out(3 * scanned_bytes + 16) {}
    Scan scan;
    BertWords words;
    WordCache cache;
    std::vector<std::int32_t> out;  // three ids a byte at most
    std::vector<std::int32_t> word_ids;
  };

  void encode(Work& work, std::string_view raw, std::vector<std::int32_t>& ids) const;

 private:
  void encode_piece(Work& work, std::string_view piece, std::vector<std::int32_t>& ids) const;
  template <bool odd>
  void encode_scanned(Work& work, std::vector<std::int32_t>& ids) const;
  void encode_run(Work& work, std::string_view run, std::vector<std::int32_t>& ids) const {
    work.words.split(
        run, [&](std::string_view word, std::size_t characters) { match(word, characters, ids); });
  }
  void match(std::string_view word, std::size_t characters, std::vector<std::int32_t>& ids) const;

  WordPieceSettings settings_;  // without the vocabulary
  TokenTrie initial_, continuing_;
  AddedTokens added_{{}};  // looked for in the normalised text
  std::int32_t unk_;
};

void WordPiece::match(std::string_view word, std::size_t characters,
                      std::vector<std::int32_t>& ids) const {
  if (static_cast<std::int64_t>(characters) > settings_.max_input_chars_per_word) {
    ids.push_back(unk_);
    return;
  }
  const std::size_t before = ids.size();
  auto match = initial_.longest(word.data(), word.size());
  std::size_t at = 0;
  while (match.id >= 0) {
    ids.push_back(match.id);
    at += match.length;
    if (at == word.size()) return;
    match = continuing_.longest(word.data() + at, word.size() - at);
  }
  ids.resize(before);
  ids.push_back(unk_);
}

// Straight line for words of up to 16 bytes: mask, hash, compare, copy. `odd`: the piece holds
// bytes that are not plain ASCII text.
template <bool odd>
void WordPiece::encode_scanned(Work& work, std::vector<std::int32_t>& ids) const {
  const Scan& scan = work.scan;
  std::int32_t* const begin = work.out.data();
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
        const WordCache::Entry* known = work.cache.find(key);
        if (known != nullptr) [[likely]] {
          if (known->count <= WordCache::inline_ids) [[likely]] {
            std::memcpy(to, known->ids, sizeof(known->ids));
            to += known->count;
            continue;
          }
          if (!is_odd) {
            const auto more = work.cache.ids(*known);
            to = std::copy(more.begin(), more.end(), to);
            continue;
          }
        }
      }
      work.word_ids.clear();
      if (is_odd) {
        encode_run(work, {text, length}, work.word_ids);
      } else {
        match({text, length}, length, work.word_ids);
      }
      if (fits) work.cache.insert(key, work.word_ids);
      if (is_odd) {  // may be longer than its bytes
        ids.insert(ids.end(), begin, to);
        ids.insert(ids.end(), work.word_ids.begin(), work.word_ids.end());
        to = begin;
      } else {
        to = std::copy(work.word_ids.begin(), work.word_ids.end(), to);
      }
    }
  }
  ids.insert(ids.end(), begin, to);
}

void WordPiece::encode_piece(Work& work, std::string_view piece,
                             std::vector<std::int32_t>& ids) const {
  while (!piece.empty()) {
    std::size_t size = piece.size();
    if (size > scanned_bytes) {
      size = scanned_bytes;
      while (size > 0 && !is_ascii_delimiter(piece[size - 1])) --size;
    }
    if (size == 0) {  // one run fills more than a piece
      size = static_cast<std::size_t>(std::find_if(piece.begin(), piece.end(), is_ascii_delimiter) -
                                      piece.begin());
      encode_run(work, piece.substr(0, size), ids);
    } else {
      work.scan.run(piece.substr(0, size), settings_.words.lowercase);
      work.scan.any_odd() ? encode_scanned<true>(work, ids) : encode_scanned<false>(work, ids);
    }
    piece.remove_prefix(size);
  }
}

// Few models have tokens that are looked for in normalised text (MPNet's <unk>), and few texts may
// hold one: normalising twice changes nothing.
void WordPiece::encode(Work& work, std::string_view raw, std::vector<std::int32_t>& ids) const {
  if (!added_.may_be_in(raw)) return encode_piece(work, raw, ids);
  const std::string normalized = work.words.normalized(raw);
  split_added(added_, normalized, ids,
              [&](std::string_view piece) { encode_piece(work, piece, ids); });
}

WordPiece::WordPiece(const WordPieceSettings& settings)
    : unk_(TokenIds(settings.vocabulary, {})(settings.unk_token)) {
  std::vector<std::pair<std::string_view, std::int32_t>> heads, tails;
  const std::string_view prefix = settings.continuing_subword_prefix;
  for (const auto& [token, id] : settings.vocabulary) {
    // A word has at most max_input_chars_per_word characters of at most four bytes: longer tokens
    // can never match.
    if (static_cast<std::int64_t>(token.size()) >
        4 * settings.max_input_chars_per_word + static_cast<std::int64_t>(prefix.size()))
      continue;
    heads.emplace_back(token, id);
    if (token.size() > prefix.size() && std::string_view(token).starts_with(prefix))
      tails.emplace_back(std::string_view(token).substr(prefix.size()), id);
  }
  initial_ = TokenTrie(std::move(heads));
  continuing_ = TokenTrie(std::move(tails));
  settings_.words = settings.words;
  settings_.max_input_chars_per_word = settings.max_input_chars_per_word;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(WordPieceSettings model, TokenizerDescription description,
                                          const std::string& where) {
  check_vocabulary(model.vocabulary, where);
  if (model.max_input_chars_per_word < 1)
    throw input_error("{}: \"max_input_chars_per_word\" must be at least 1", where);
  if (TokenIds(model.vocabulary, {})(model.unk_token) < 0)
    throw input_error(
        "{}: the vocabulary has no {}, which BERT input needs; take the file of the model again",
        where, model.unk_token);
  WordPiece encoder(model);
  const BertWordSettings& w = model.words;
  Fingerprint print;
  print.add("wordpiece 2").add(print_of(model.vocabulary));
  print.add(std::int64_t{w.clean_text * 8 + w.handle_chinese_chars * 4 + w.strip_accents * 2 +
                         w.lowercase});
  print.add(model.continuing_subword_prefix).add(model.max_input_chars_per_word);
  description.names.unk = model.unk_token;
  BertWords words(w);
  TokenizerParts parts =
      make_parts(std::move(model.vocabulary), print.hex(), std::move(description), where,
                 [&](std::string_view token) { return words.normalized(token); });
  encoder.look_for(parts.normalized_added);
  return std::make_unique<TextTokenizer<WordPiece>>(std::move(encoder), std::move(parts));
}

}  // namespace gpuhpc
