#include "gpuhpc/text/phrases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

struct Counter {
  std::int64_t count = 0, documents = 0, last_document = -1;
  void see(std::int64_t document) {
    ++count;
    documents += last_document != document;
    last_document = document;
  }
};

// One length: the frequent phrases, sorted by key, so that a number means the same phrase on every
// rank.
struct Level {
  std::vector<std::uint64_t>
      keys;  // (number of the head one word shorter) << 32 | number of the last word
  std::vector<std::int64_t> counts, documents;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
};

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T take(std::string_view& bytes) {
  if (bytes.size() < sizeof(T)) throw internal_error("partial phrase counts are cut");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

bool may_end_phrase(std::string_view word) {
  if (word.size() < 2 || is_phrase_stop_word(word)) return false;
  return std::any_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
  });
}

}  // namespace

void declare(config::Section& section, PhraseOptions& options) {
  section.option("longest", options.longest, "longest phrase mined from the corpus")
      .range(1, 4)
      .unit("words");
  section
      .option("least-documents", options.least_documents,
              "a mined phrase occurs in at least so many documents")
      .range(1, 1e12)
      .unit("documents");
  section
      .option("least-pmi", options.least_pmi,
              "least pointwise mutual information of a phrase of several words")
      .range(-100, 100)
      .unit("bits");
  section
      .option("nested-share", options.nested_share,
              "a phrase found to this share inside one longer phrase is left out")
      .range(0, 1);
  section.option("most", options.most, "phrases kept, the most frequent first; 0 keeps all")
      .range(0, 1e9);
}

struct PhraseMiner::State {
  PhraseOptions options;
  std::vector<Level> levels;
  std::vector<std::string> words;  // frequent ones, sorted; number = place
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> word_numbers;
  std::int64_t all_words = 0;  // of the corpus, frequent or not
  // This level, this miner:
  std::unordered_map<std::string, Counter, TextHash, std::equal_to<>> word_counters;
  std::unordered_map<std::uint64_t, Counter> counters;
  std::int64_t document = 0, seen_words = 0;
  bool done = false;
  PhraseWords text;
  std::vector<std::uint32_t> sequence, heads, next_heads;

  std::size_t level() const { return levels.size() + 1; }
  void count_words();
  void count_phrases();
  void finish_words(std::span<const std::string> partials);
  void finish_phrases(std::span<const std::string> partials);
  std::vector<std::uint32_t> members(std::size_t length, std::uint32_t number) const;
  std::uint32_t number_of(std::span<const std::uint32_t> phrase) const;
  double pmi(std::span<const std::uint32_t> phrase, std::int64_t count) const;
  std::vector<std::vector<char>> nested() const;
};

void PhraseMiner::State::count_words() {
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto place = word_counters.find(text[i]);
    if (place == word_counters.end())
      place = word_counters.emplace(std::string(text[i]), Counter{}).first;
    place->second.see(document);
  }
  seen_words += static_cast<std::int64_t>(text.size());
}

void PhraseMiner::State::count_phrases() {
  const std::size_t n = text.size();
  sequence.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto place = word_numbers.find(text[i]);
    sequence[i] = place == word_numbers.end() ? none : place->second;
  }
  heads = sequence;  // number of the frequent phrase of `length` words that begins at i
  for (std::size_t length = 2; length < level(); ++length) {
    next_heads.assign(n, none);
    for (std::size_t i = 0; i + length <= n; ++i) {
      const std::size_t last = i + length - 1;
      if (heads[i] == none || sequence[last] == none || text.after_break(last)) continue;
      const auto place =
          levels[length - 1].numbers.find(std::uint64_t{heads[i]} << 32 | sequence[last]);
      if (place != levels[length - 1].numbers.end()) next_heads[i] = place->second;
    }
    heads.swap(next_heads);
  }
  for (std::size_t i = 0; i + level() <= n; ++i) {
    const std::size_t last = i + level() - 1;
    if (heads[i] == none || heads[i + 1] == none || text.after_break(last)) continue;
    counters[std::uint64_t{heads[i]} << 32 | sequence[last]].see(document);
  }
}

void PhraseMiner::State::finish_words(std::span<const std::string> partials) {
  std::map<std::string, Counter, std::less<>> sums;
  for (std::string_view bytes : partials) {
    all_words += take<std::int64_t>(bytes);
    while (!bytes.empty()) {
      const auto size = take<std::uint32_t>(bytes);
      if (size > bytes.size()) throw internal_error("partial phrase counts are cut");
      Counter& sum = sums[std::string(bytes.substr(0, size))];
      bytes.remove_prefix(size);
      sum.count += take<std::int64_t>(bytes);
      sum.documents += take<std::int64_t>(bytes);
    }
  }
  Level level;
  for (const auto& [word, sum] : sums) {
    if (sum.documents < options.least_documents) continue;
    word_numbers.emplace(word, static_cast<std::uint32_t>(words.size()));
    words.push_back(word);
    level.counts.push_back(sum.count), level.documents.push_back(sum.documents);
  }
  levels.push_back(std::move(level));
}

void PhraseMiner::State::finish_phrases(std::span<const std::string> partials) {
  struct Sum {
    std::uint64_t key;
    std::int64_t count, documents;
  };
  std::vector<Sum> sums;
  for (std::string_view bytes : partials) {
    take<std::int64_t>(bytes);
    sums.reserve(sums.size() + bytes.size() / sizeof(Sum));
    while (!bytes.empty()) {
      Sum sum{take<std::uint64_t>(bytes), 0, 0};
      sum.count = take<std::int64_t>(bytes);
      sum.documents = take<std::int64_t>(bytes);
      sums.push_back(sum);
    }
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& x, const Sum& y) { return x.key < y.key; });
  Level level;
  for (std::size_t i = 0; i < sums.size();) {
    Sum total{sums[i].key, 0, 0};
    for (; i < sums.size() && sums[i].key == total.key; ++i)
      total.count += sums[i].count, total.documents += sums[i].documents;
    if (total.documents < options.least_documents) continue;
    level.numbers.emplace(total.key, static_cast<std::uint32_t>(level.keys.size()));
    level.keys.push_back(total.key), level.counts.push_back(total.count),
        level.documents.push_back(total.documents);
  }
  levels.push_back(std::move(level));
}

// Word numbers of a phrase of `length` words.
std::vector<std::uint32_t> PhraseMiner::State::members(std::size_t length,
                                                       std::uint32_t number) const {
  std::vector<std::uint32_t> result(length);
  for (; length > 1; --length) {
    const std::uint64_t key = levels[length - 1].keys[number];
    result[length - 1] = static_cast<std::uint32_t>(key);
    number = static_cast<std::uint32_t>(key >> 32);
  }
  result[0] = number;
  return result;
}

// All parts of a frequent phrase are frequent, so this finds them.
std::uint32_t PhraseMiner::State::number_of(std::span<const std::uint32_t> phrase) const {
  std::uint32_t number = phrase[0];
  for (std::size_t i = 1; i < phrase.size(); ++i)
    number = levels[i].numbers.at(std::uint64_t{number} << 32 | phrase[i]);
  return number;
}

double PhraseMiner::State::pmi(std::span<const std::uint32_t> phrase, std::int64_t count) const {
  if (phrase.size() == 1) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t cut = 1; cut < phrase.size(); ++cut) {
    const auto head = static_cast<double>(levels[cut - 1].counts[number_of(phrase.first(cut))]);
    const auto tail =
        static_cast<double>(levels[phrase.size() - cut - 1].counts[number_of(phrase.subspan(cut))]);
    least = std::min(least, std::log2(static_cast<double>(count) * static_cast<double>(all_words) /
                                      (head * tail)));
  }
  return least;
}

// nested()[n - 1][i]: phrase i of n words occurs mostly inside one longer phrase.
std::vector<std::vector<char>> PhraseMiner::State::nested() const {
  std::vector<std::vector<char>> result;
  for (const Level& level : levels) result.emplace_back(level.counts.size(), 0);
  for (std::size_t n = 3; n <= levels.size(); ++n) {  // a word alone is never dropped for a pair
    for (std::uint32_t i = 0; i < levels[n - 1].counts.size(); ++i) {
      const auto phrase = members(n, i);
      if (!may_end_phrase(words[phrase.front()]) || !may_end_phrase(words[phrase.back()])) continue;
      if (pmi(phrase, levels[n - 1].counts[i]) < options.least_pmi) continue;
      const std::span<const std::uint32_t> all(phrase);
      for (const auto part : {all.first(n - 1), all.subspan(1)}) {
        const std::uint32_t number = number_of(part);
        const auto inside = static_cast<double>(levels[n - 1].counts[i]);
        if (inside >= options.nested_share * static_cast<double>(levels[n - 2].counts[number]))
          result[n - 2][number] = 1;
      }
    }
  }
  return result;
}

PhraseMiner::PhraseMiner(PhraseOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
PhraseMiner::~PhraseMiner() = default;
PhraseMiner::PhraseMiner(PhraseMiner&&) noexcept = default;

bool PhraseMiner::done() const { return state_->done; }
std::int64_t PhraseMiner::level() const { return static_cast<std::int64_t>(state_->level()); }

void PhraseMiner::count(std::string_view text) {
  state_->text.split(text);
  state_->level() == 1 ? state_->count_words() : state_->count_phrases();
  state_->document++;
}

std::string PhraseMiner::partial() const {
  std::string bytes;
  append(bytes, state_->seen_words);
  for (const auto& [word, counter] : state_->word_counters) {
    append(bytes, static_cast<std::uint32_t>(word.size()));
    bytes += word;
    append(bytes, counter.count), append(bytes, counter.documents);
  }
  for (const auto& [key, counter] : state_->counters) {
    append(bytes, key), append(bytes, counter.count), append(bytes, counter.documents);
  }
  return bytes;
}

void PhraseMiner::finish_level(std::span<const std::string> partials) {
  State& s = *state_;
  if (s.done) throw internal_error("the phrase miner has finished");
  s.level() == 1 ? s.finish_words(partials) : s.finish_phrases(partials);
  s.word_counters.clear(), s.counters.clear();
  s.document = 0, s.seen_words = 0;
  s.done = static_cast<std::int64_t>(s.levels.size()) == s.options.longest ||
           s.levels.back().counts.empty();
}

void PhraseMiner::finish_level() {
  const std::string all = partial();
  finish_level(std::span(&all, 1));
}

std::vector<Phrase> PhraseMiner::phrases() const {
  const State& s = *state_;
  const auto nested = s.nested();
  std::vector<Phrase> result;
  for (std::size_t n = 1; n <= s.levels.size(); ++n) {
    for (std::uint32_t i = 0; i < s.levels[n - 1].counts.size(); ++i) {
      const auto members = s.members(n, i);
      if (nested[n - 1][i] != 0 || !may_end_phrase(s.words[members.front()]) ||
          !may_end_phrase(s.words[members.back()]))
        continue;
      Phrase phrase{{},
                    static_cast<std::int64_t>(n),
                    s.levels[n - 1].counts[i],
                    s.levels[n - 1].documents[i],
                    0};
      phrase.pmi = s.pmi(members, phrase.count);
      if (n > 1 && phrase.pmi < s.options.least_pmi) continue;
      for (const std::uint32_t word : members)
        phrase.text += (phrase.text.empty() ? "" : " ") + s.words[word];
      result.push_back(std::move(phrase));
    }
  }
  std::sort(result.begin(), result.end(), [](const Phrase& a, const Phrase& b) {
    return a.documents != b.documents ? a.documents > b.documents : a.text < b.text;
  });
  if (s.options.most > 0 && result.size() > static_cast<std::size_t>(s.options.most))
    result.resize(static_cast<std::size_t>(s.options.most));
  return result;
}

std::vector<Phrase> mine_phrases(std::span<const std::string> texts, const PhraseOptions& options) {
  PhraseMiner miner(options);
  for (; !miner.done(); miner.finish_level()) {
    for (const auto& text : texts) miner.count(text);
  }
  return miner.phrases();
}

PhraseFinder::PhraseFinder(std::span<const std::string> phrases) : found_at_{-1} {
  for (std::size_t p = 0; p < phrases.size(); ++p) {
    words_.split(phrases[p]);
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto word =
          word_ids_.emplace(std::string(words_[i]), static_cast<std::uint32_t>(word_ids_.size()))
              .first->second;
      const auto [edge, fresh] = edges_.emplace(std::uint64_t{node} << 32 | word,
                                                static_cast<std::uint32_t>(found_at_.size()));
      if (fresh) found_at_.push_back(-1);
      node = edge->second;
    }
    if (node != 0 && found_at_[node] < 0) found_at_[node] = static_cast<std::int32_t>(p);
  }
}

std::int64_t PhraseFinder::find(std::string_view text, std::vector<std::int32_t>& ids) {
  words_.split(text);
  numbers_.resize(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const auto place = word_ids_.find(words_[i]);
    numbers_[i] = place == word_ids_.end() ? none : place->second;
  }
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    std::uint32_t node = 0;
    for (std::size_t k = i;
         k < numbers_.size() && numbers_[k] != none && (k == i || !words_.after_break(k)); ++k) {
      const auto edge = edges_.find(std::uint64_t{node} << 32 | numbers_[k]);
      if (edge == edges_.end()) break;
      node = edge->second;
      if (found_at_[node] >= 0) ids.push_back(found_at_[node]);
    }
  }
  return static_cast<std::int64_t>(words_.size());
}

}  // namespace gpuhpc
