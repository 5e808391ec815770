// Unigram model of SentencePiece: Viterbi in fp64, as Hugging Face tokenizers has it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "characters.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "text_tokenizer.hpp"

namespace gpuhpc {
namespace {

constexpr double unk_penalty = 10;  // below the lowest score of the vocabulary
constexpr std::uint32_t unreached = std::numeric_limits<std::uint32_t>::max();

void append_spaced(std::string_view text, std::string& out) {  // "▁" becomes a space
  for (std::size_t found; (found = text.find(metaspace)) != std::string_view::npos;
       text.remove_prefix(found + std::strlen(metaspace))) {
    out.append(text.substr(0, found)).push_back(' ');
  }
  out.append(text);
}

bool begins_word(std::string_view text) {
  return text.starts_with(' ') || text.starts_with(metaspace);
}

std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

class Unigram {
 public:
  struct Work {    // of one thread
    struct Node {  // best path that ends here
      double score;
      std::int32_t id;
      std::uint32_t begin;
    };
    std::vector<Node> nodes;
  };

  Unigram(const UnigramSettings& settings, const std::string& where);

  // `piece` as words are cut from it, at the end of `out`. A space stands for "▁" in here: one byte
  // instead of three.
  void prepare(std::string_view piece, std::string& out) const;
  // Calls word(begin, end) for each word of `text`, in order: a space and what follows up to the
  // next.
  template <typename Word>
  static void split(std::string_view text, Word&& word) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at + 1), text.size());
      word(at, end);
      at = end;
    }
  }
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  TokenTrie trie_;
  std::vector<double> scores_;
  double unk_score_ = 0;
  std::int32_t unk_;
  bool split_white_space_, add_prefix_space_;
  std::string fingerprint_;
};

Unigram::Unigram(const UnigramSettings& settings, const std::string& where)
    : scores_(settings.scores),
      unk_(settings.unk_id),
      split_white_space_(settings.split_white_space),
      add_prefix_space_(settings.add_prefix_space) {
  check_vocabulary(settings.vocabulary, where);
  if (unk_ < 0 || unk_ >= std::ssize(settings.vocabulary)) {
    throw input_error(
        "{}: \"unk_id\" is {}, the vocabulary has {} entries; take the file of the model again",
        where, unk_, settings.vocabulary.size());
  }
  Fingerprint print;
  print.add("unigram 2").add(std::int64_t{unk_ * 4LL + split_white_space_ * 2 + add_prefix_space_});
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < settings.vocabulary.size(); ++i) {
    const auto& [token, id] = settings.vocabulary[i];
    if (id != static_cast<std::int32_t>(i) || i >= scores_.size())
      throw internal_error("{}: unigram ids must count from 0", where);
    if (!std::isfinite(scores_[i]))
      throw input_error(
          "{}: the score of token \"{}\" is not a finite number; take the file of the model again",
          where, token);
    print.add(token).add(std::bit_cast<std::int64_t>(scores_[i]));
    pieces.emplace_back();
    if (token.find(' ') == std::string::npos)
      append_spaced(token, pieces.back());  // no text holds a space here
  }
  std::vector<std::pair<std::string_view, std::int32_t>> tokens;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].empty()) tokens.emplace_back(pieces[i], static_cast<std::int32_t>(i));
  }
  trie_ = TokenTrie(std::move(tokens));
  unk_score_ = *std::min_element(scores_.begin(), scores_.end()) - unk_penalty;
  fingerprint_ = print.hex();
}

void Unigram::prepare(std::string_view piece, std::string& out) const {
  if (!split_white_space_) {
    if (add_prefix_space_ && !begins_word(piece)) out.push_back(' ');
    append_spaced(piece, out);
    return;
  }
  for (std::size_t begin = 0, at = 0; begin < piece.size();) {
    std::size_t end = at = begin;
    while (at < piece.size() && !is_white_space(next_code_point(piece, at))) end = at;
    const std::string_view word = piece.substr(begin, end - begin);
    if (!word.empty()) {
      if (add_prefix_space_ && !begins_word(word)) out.push_back(' ');
      append_spaced(word, out);
    }
    begin = at;
  }
}

// Of paths with equal scores the one found first stays: the longest last token.
void Unigram::encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const {
  auto& nodes = work.nodes;
  nodes.assign(word.size() + 1, {0, 0, unreached});
  for (std::size_t at = 0, next; at < word.size(); at = next) {
    const double before = nodes[at].score;
    next = std::min(at + character_bytes(word[at]), word.size());
    const auto offer = [&](std::size_t end, std::int32_t id, double score) {
      auto& node = nodes[end];
      if (node.begin == unreached || before + score > node.score)
        node = {before + score, id, static_cast<std::uint32_t>(at)};
    };
    bool has_single = false;
    trie_.prefixes(word.data() + at, word.size() - at, [&](std::int32_t id, std::size_t length) {
      offer(at + length, id, scores_[static_cast<std::size_t>(id)]);
      has_single |= at + length == next;
    });
    if (!has_single) offer(next, unk_, unk_score_);
  }
  const std::size_t first = ids.size();
  for (std::size_t end = word.size(); end > 0; end = nodes[end].begin) {
    const std::int32_t id = nodes[end].id;
    if (id != unk_ || ids.size() == first || ids.back() != unk_)
      ids.push_back(id);  // unknown characters in a row are one token
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(UnigramSettings model, TokenizerDescription description,
                                          const std::string& where) {
  Unigram unigram(model, where);
  description.names.unk = model.vocabulary[static_cast<std::size_t>(model.unk_id)].token;
  return make_word_tokenizer(std::move(unigram), std::move(model.vocabulary),
                             std::move(description), where);
}

}  // namespace gpuhpc
