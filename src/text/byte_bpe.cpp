// Byte-level BPE: GPT-2's pattern cuts the text into words, and the merge of lowest rank is applied
// until none is left.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "byte_words.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "text_tokenizer.hpp"

namespace gpuhpc {
namespace {

// parts: up to here looking at all ranks is faster than a heap
constexpr std::size_t short_word = 48;
constexpr std::uint32_t no_part = std::numeric_limits<std::uint32_t>::max();

// Rank of a merge by the ids it joins; ranks count from 0.
class MergeTable {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFu;
  explicit MergeTable(std::size_t merges);
  void set(std::int32_t left, std::int32_t right,
           std::uint32_t rank);  // the last rank given counts
  std::uint32_t rank(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = make_key(left, right);
    for (std::size_t place = key * multiplier >> shift_;;
         place = (place + 1) & (slots_.size() - 1)) {
      if (slots_[place].rank == none || slots_[place].key == key) return slots_[place].rank;
    }
  }

 private:
  static constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15u;
  static std::uint64_t make_key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t rank = none;
  };
  std::vector<Slot> slots_;  // at least half are free
  int shift_;
};

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::set(std::int32_t left, std::int32_t right, std::uint32_t rank) {
  const std::uint64_t key = make_key(left, right);
  std::size_t place = key * multiplier >> shift_;
  while (slots_[place].rank != none && slots_[place].key != key)
    place = (place + 1) & (slots_.size() - 1);
  slots_[place] = {key, rank};
}

class ByteBpe {
 public:
  struct Work {  // of one thread
    struct Part {
      std::int32_t id;
      std::uint32_t rank;  // of the merge with the part to the right
    };
    struct Candidate {
      std::uint32_t rank, position;
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : position > other.position;
      }
    };
    std::vector<Part> parts;
    std::vector<std::uint32_t> before, after;
    std::vector<Candidate> heap;
  };

  ByteBpe(const ByteBpeSettings& settings, const std::string& where);

  // `piece` as words are cut from it, at the end of `out`.
  void prepare(std::string_view piece, std::string& out) const;
  // Calls word(begin, end) for each word of `text`, in order.
  template <typename Word>
  static void split(std::string_view text, Word&& word) {
    split_byte_words(text, word);
  }
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  void merge_short(Work& work) const;
  void merge_long(Work& work) const;

  std::array<std::int32_t, 256> byte_ids_{};  // -1: not in the vocabulary
  std::int32_t unk_ = -1;
  bool fuse_unk_, add_prefix_space_;
  MergeTable merges_;
  std::vector<std::int32_t> merged_ids_;  // by rank
  std::string fingerprint_;
};

ByteBpe::ByteBpe(const ByteBpeSettings& settings, const std::string& where)
    : fuse_unk_(settings.fuse_unk),
      add_prefix_space_(settings.add_prefix_space),
      merges_(settings.merges.size()) {
  check_vocabulary(settings.vocabulary, where);
  const TokenIds id_of(settings.vocabulary, {});
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string name;
    append_code_point(byte_characters[byte], name);
    byte_ids_[byte] = id_of(name);
  }
  if (!settings.unk_token.empty()) {
    unk_ = id_of(settings.unk_token);
    if (unk_ < 0)
      throw input_error(
          "{}: the vocabulary has no {}, its \"unk_token\"; take the file of the model again",
          where, settings.unk_token);
  }
  for (const auto& [left, right] : settings.merges) {
    const std::int32_t joined = id_of(left + right);
    for (const auto& [id, token] :
         {std::pair{id_of(left), left}, {id_of(right), right}, {joined, left + right}}) {
      if (id < 0)
        throw input_error(
            "{}: merge \"{} {}\": the vocabulary has no \"{}\"; take vocabulary and merges from "
            "one model",
            where, left, right, token);
    }
    merges_.set(id_of(left), id_of(right), static_cast<std::uint32_t>(merged_ids_.size()));
    merged_ids_.push_back(joined);
  }
  Fingerprint print;
  print.add("byte-level bpe 2").add(print_of(settings.vocabulary));
  for (const auto& [left, right] : settings.merges) print.add(left).add(right);
  print.add(settings.unk_token)
      .add(std::int64_t{settings.fuse_unk * 2 + settings.add_prefix_space});
  fingerprint_ = print.hex();
}

void ByteBpe::prepare(std::string_view piece, std::string& out) const {
  if (add_prefix_space_ && !piece.starts_with(' ')) out.push_back(' ');
  out.append(piece);
}

void ByteBpe::encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const {
  auto& parts = work.parts;
  parts.clear();
  bool after_unknown = false;
  for (const char c : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    const bool unknown = id < 0;
    if (!unknown) {
      parts.push_back({id, MergeTable::none});
    } else if (unk_ >= 0 && !(fuse_unk_ && after_unknown)) {
      parts.push_back({unk_, MergeTable::none});
    }
    after_unknown = unknown;
  }
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    parts[i].rank = merges_.rank(parts[i].id, parts[i + 1].id);
  parts.size() <= short_word ? merge_short(work) : merge_long(work);
  for (const auto& part : parts) ids.push_back(part.id);
}

void ByteBpe::merge_short(Work& work) const {
  auto& parts = work.parts;
  for (;;) {
    const auto best = std::min_element(
        parts.begin(), parts.end(),
        [](const auto& a, const auto& b) { return a.rank < b.rank; });  // the leftmost
    if (best == parts.end() || best->rank == MergeTable::none) return;
    best->id = merged_ids_[best->rank];
    parts.erase(best + 1);
    best->rank =
        best + 1 == parts.end() ? MergeTable::none : merges_.rank(best->id, (best + 1)->id);
    if (best != parts.begin()) (best - 1)->rank = merges_.rank((best - 1)->id, best->id);
  }
}

// The same with a heap and a list, for words of any length.
void ByteBpe::merge_long(Work& work) const {
  auto& parts = work.parts;
  auto &before = work.before, &after = work.after;
  auto& heap = work.heap;
  const auto count = static_cast<std::uint32_t>(parts.size());
  before.resize(count), after.resize(count), heap.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    before[i] = i == 0 ? no_part : i - 1;
    after[i] = i + 1 == count ? no_part : i + 1;
    if (parts[i].rank != MergeTable::none) heap.push_back({parts[i].rank, i});
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto update = [&](std::uint32_t i) {
    parts[i].rank =
        after[i] == no_part ? MergeTable::none : merges_.rank(parts[i].id, parts[after[i]].id);
    if (parts[i].rank == MergeTable::none) return;
    heap.push_back({parts[i].rank, i});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto [rank, i] = heap.back();
    heap.pop_back();
    if (parts[i].rank != rank) continue;  // changed since
    const std::uint32_t right = after[i];
    parts[i].id = merged_ids_[rank];
    parts[right] = {-1, MergeTable::none};
    after[i] = after[right];
    if (after[i] != no_part) before[after[i]] = i;
    update(i);
    if (before[i] != no_part) update(before[i]);
  }
  std::erase_if(parts, [](const auto& part) { return part.id < 0; });
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(ByteBpeSettings model, TokenizerDescription description,
                                          const std::string& where) {
  ByteBpe bpe(model, where);
  return make_word_tokenizer(std::move(bpe), std::move(model.vocabulary), std::move(description),
                             where);
}

}  // namespace gpuhpc
