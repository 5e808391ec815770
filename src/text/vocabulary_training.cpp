#include "gpuhpc/text/vocabulary_training.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <span>

#include "byte_words.hpp"
#include "decoder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

constexpr std::string_view prefix = "##";

// Two ids side by side, in the order of the left one, then of the right one.
using Pair = std::uint64_t;
Pair pair_of(std::int32_t left, std::int32_t right) {
  return (Pair{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}
std::int32_t left_of(Pair pair) { return static_cast<std::int32_t>(pair >> 32); }
std::int32_t right_of(Pair pair) { return static_cast<std::int32_t>(pair & 0xFFFFFFFFu); }

// Counts by pair in one open table.
class PairTable {
 public:
  struct Slot {
    Pair pair = none;
    std::int64_t count = 0;
    std::int32_t places = -1;  // the list of words that is being gathered; -1: none
  };
  PairTable() : slots_(std::size_t{1} << 16) {}
  Slot& operator[](Pair pair) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slots_[place(pair)];
    if (slot.pair == none) slot.pair = pair, ++used_;
    return slot;
  }

 private:
  static constexpr Pair none = std::numeric_limits<Pair>::max();
  std::size_t place(Pair pair) const {
    std::size_t at = (pair * 0x9E3779B97F4A7C15u) >> 20 & (slots_.size() - 1);
    while (slots_[at].pair != none && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.pair != none) slots_[place(slot.pair)] = slot;
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

class Learner {
 public:
  Learner(const WordCounts& counts, const VocabularySettings& settings) : settings_(settings) {
    result_.kind = counts.kind();
    for (const std::string& token : settings.special) id_of(token);
    result_.specials = std::ssize(result_.tokens);
    counts.kind() == Subwords::bytes ? add_bytes(counts) : add_characters(counts);
    if (std::ssize(result_.tokens) > settings.size)
      throw input_error(
          "the characters of these texts and the special tokens are {} entries, more than a "
          "vocabulary of {} holds; ask for a larger one",
          result_.tokens.size(), settings.size);
    for (std::uint32_t word = 0; word < counts_.size(); ++word) count_pairs(word);
    queue_gathered();
  }

  LearntVocabulary learn(const std::function<void()>& merged) {
    while (std::ssize(result_.tokens) < settings_.size && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[best.pair].count;
      if (best.count != count) {
        best.count = count;
        queue_.push(best);
        continue;
      }
      if (count < std::max<std::int64_t>(1, settings_.least_count)) break;
      const std::string& left = result_.tokens[static_cast<std::size_t>(left_of(best.pair))];
      std::string_view right = result_.tokens[static_cast<std::size_t>(right_of(best.pair))];
      if (result_.kind == Subwords::wordpiece && right.starts_with(prefix))
        right.remove_prefix(prefix.size());
      const std::int32_t joined = id_of(left + std::string(right));
      result_.merges.emplace_back(left_of(best.pair), right_of(best.pair));
      for (const std::uint32_t word : std::exchange(places_[best.places], {}))
        merge(word, best.pair, joined);
      queue_gathered();
      if (merged) merged();
    }
    return std::move(result_);
  }

 private:
  struct Candidate {
    std::int64_t count;
    Pair pair;
    std::size_t places;
    bool operator<(const Candidate& other) const {  // the largest is taken first
      if (count != other.count) return count < other.count;
      return pair != other.pair ? pair > other.pair : places > other.places;
    }
  };

  std::int32_t id_of(const std::string& token) {
    const auto [place, added] =
        ids_.try_emplace(token, static_cast<std::int32_t>(result_.tokens.size()));
    if (added) result_.tokens.push_back(token);
    return place->second;
  }

  void add_bytes(const WordCounts& counts) {
    std::array<std::string, 256> names;
    for (std::size_t byte = 0; byte < 256; ++byte)
      append_code_point(byte_characters[byte], names[byte]);
    std::array<std::string, 256> sorted = names;
    std::ranges::sort(sorted);  // of UTF-8 that is the order of code points
    for (const std::string& name : sorted) id_of(name);
    std::array<std::int32_t, 256> ids;
    std::ranges::transform(names, ids.begin(), [&](const std::string& n) { return id_of(n); });
    for (const auto& [word, times] : counts) {
      for (const char c : word) symbols_.push_back(ids[static_cast<unsigned char>(c)]);
      end_word(times);
    }
  }

  void add_characters(const WordCounts& counts) {
    std::unordered_map<char32_t, std::int64_t> seen, inside;  // inside: behind a word's first one
    for (const auto& [word, times] : counts)
      for (std::size_t at = 0; at < word.size();) {
        const bool first = at == 0;
        const char32_t c = next_code_point(word, at);
        seen[c] += times;
        if (!first) inside[c] += times;
      }
    std::vector<std::pair<std::int64_t, char32_t>> kept;
    for (const auto& [c, times] : seen) kept.emplace_back(-times, c);
    std::ranges::sort(kept);
    if (std::ssize(kept) > settings_.alphabet)
      kept.resize(static_cast<std::size_t>(settings_.alphabet));
    std::vector<char32_t> alphabet;
    for (const auto& [times, c] : kept) alphabet.push_back(c);
    std::ranges::sort(alphabet);
    std::unordered_map<char32_t, std::int32_t> begins, continues;
    const auto add = [&](char32_t c, std::string name) {
      append_code_point(c, name);
      return id_of(name);
    };
    for (const char32_t c : alphabet) begins[c] = add(c, "");
    for (const char32_t c : alphabet)
      if (inside.contains(c)) continues[c] = add(c, std::string(prefix));
    for (const auto& [word, times] : counts) {
      for (std::size_t at = 0; at < word.size();) {
        const auto& ids = at == 0 ? begins : continues;
        const auto id = ids.find(next_code_point(word, at));
        if (id != ids.end()) symbols_.push_back(id->second);  // others are passed over
      }
      end_word(times);
    }
  }

  void end_word(std::int64_t times) {
    const std::size_t begin = begins_.back();
    begins_.push_back(symbols_.size());
    lengths_.push_back(static_cast<std::uint32_t>(symbols_.size() - begin));
    counts_.push_back(times);
  }

  void change(Pair pair, std::int64_t by, std::uint32_t word) {
    PairTable::Slot& slot = pairs_[pair];
    slot.count += by;
    if (by < 0) return;
    if (slot.places < 0) {
      slot.places = static_cast<std::int32_t>(places_.size());
      places_.emplace_back();
      gathered_.push_back(pair);
    }
    std::vector<std::uint32_t>& words = places_[static_cast<std::size_t>(slot.places)];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void count_pairs(std::uint32_t word) {
    const std::span symbols(symbols_.data() + begins_[word], lengths_[word]);
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      change(pair_of(symbols[i], symbols[i + 1]), counts_[word], word);
  }

  // From left to right, each place once; the symbols move together.
  void merge(std::uint32_t word, Pair pair, std::int32_t joined) {
    std::int32_t* const symbols = symbols_.data() + begins_[word];
    const std::uint32_t length = lengths_[word];
    const std::int64_t times = counts_[word];
    const std::int32_t left = left_of(pair), right = right_of(pair);
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < length; ++i) {
      if (symbols[i] != left || i + 1 == length || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        change(pair_of(symbols[kept - 1], left), -times, word);
        change(pair_of(symbols[kept - 1], joined), times, word);
      }
      if (i + 2 < length) {
        change(pair_of(right, symbols[i + 2]), -times, word);
        change(pair_of(joined, symbols[i + 2]), times, word);
      }
      symbols[kept++] = joined;
      ++i;
    }
    lengths_[word] = kept;
  }

  void queue_gathered() {
    for (const Pair pair : gathered_) {
      PairTable::Slot& slot = pairs_[pair];
      if (slot.count > 0) queue_.push({slot.count, pair, static_cast<std::size_t>(slot.places)});
      slot.places = -1;
    }
    gathered_.clear();
  }

  const VocabularySettings& settings_;
  LearntVocabulary result_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::int32_t> symbols_;  // of all words, one behind the other
  std::vector<std::size_t> begins_{0};
  std::vector<std::uint32_t> lengths_;  // that are left
  std::vector<std::int64_t> counts_;
  PairTable pairs_;
  std::vector<std::vector<std::uint32_t>> places_;  // words, of each candidate
  std::vector<Pair> gathered_;                      // pairs whose places are not yet queued
  std::priority_queue<Candidate> queue_;
};

Json added_tokens(const LearntVocabulary& vocabulary) {
  Json added = Json::array();
  for (std::int64_t id = 0; id < vocabulary.specials; ++id) {
    const std::string& content = vocabulary.tokens[static_cast<std::size_t>(id)];
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", content == "<mask>"},  // as in RoBERTa
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

Json wordpiece_parts() {
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"},
            {"sep", Json::array({"[SEP]", 3})},
            {"cls", Json::array({"[CLS]", 2})}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", prefix}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", prefix},
            {"max_input_chars_per_word", 100}}}};
}

Json byte_parts() {
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  return {{"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor",
           {{"type", "RobertaProcessing"},
            {"sep", Json::array({"</s>", 2})},
            {"cls", Json::array({"<s>", 0})},
            {"trim_offsets", true},
            {"add_prefix_space", false}}},
          {"decoder", level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false}}}};
}

}  // namespace

void WordCounts::add(std::string_view text) {
  if (kind_ == Subwords::wordpiece) {
    words_.split(text, [&](std::string_view word, std::size_t) { add(word, 1); });
  } else {
    split_byte_words(
        text, [&](std::size_t begin, std::size_t end) { add(text.substr(begin, end - begin), 1); });
  }
}

void WordCounts::add(std::string_view word, std::int64_t times) {
  const auto place = counts_.find(word);
  if (place != counts_.end())
    place->second += times;
  else
    counts_.emplace(word, times);
}

LearntVocabulary learn_vocabulary(const WordCounts& counts, const VocabularySettings& settings,
                                  const std::function<void()>& merged) {
  return Learner(counts, settings).learn(merged);
}

std::vector<std::string> special_tokens(Subwords kind) {
  if (kind == Subwords::wordpiece) return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  return {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
}

void write_tokenizer(const std::filesystem::path& folder, const LearntVocabulary& vocabulary) {
  const bool wordpiece = vocabulary.kind == Subwords::wordpiece;
  const auto token = [&](std::int32_t id) -> const std::string& {
    return vocabulary.tokens[static_cast<std::size_t>(id)];
  };
  Json ids = Json::object();
  std::string lines;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    ids[vocabulary.tokens[id]] = id;
    lines += vocabulary.tokens[id] + "\n";
  }
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = added_tokens(vocabulary);
  file.update(wordpiece ? wordpiece_parts() : byte_parts());
  file["model"]["vocab"] = ids;
  create_folder(folder);
  if (wordpiece) {
    write_text_file(folder / "vocab.txt", lines);
  } else {
    Json pairs = Json::array();
    lines = "#version: 0.2\n";
    for (const auto& [left, right] : vocabulary.merges) {
      pairs.push_back({token(left), token(right)});
      lines += token(left) + " " + token(right) + "\n";
    }
    file["model"]["merges"] = std::move(pairs);
    write_json(folder / "vocab.json", ids);
    write_text_file(folder / "merges.txt", lines);
  }
  write_json(folder / "tokenizer.json", file);
  Json config = {{"model_max_length", 512}};
  if (wordpiece) {
    config.update({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", true}});
    config.update({{"pad_token", "[PAD]"}, {"unk_token", "[UNK]"}, {"cls_token", "[CLS]"}});
    config.update({{"sep_token", "[SEP]"}, {"mask_token", "[MASK]"}});
  } else {
    config.update({{"tokenizer_class", "RobertaTokenizer"}, {"add_prefix_space", false}});
    config.update({{"pad_token", "<pad>"}, {"unk_token", "<unk>"}, {"cls_token", "<s>"}});
    config.update({{"sep_token", "</s>"}, {"mask_token", "<mask>"}});
    config.update({{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  }
  write_json(folder / "tokenizer_config.json", config);
}

}  // namespace gpuhpc
