#include "byte_bpe.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "vocabulary.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t short_word =
    48;  // parts: up to here looking at all ranks is faster than a heap
constexpr std::uint32_t no_part = std::numeric_limits<std::uint32_t>::max();

// How GPT-2's vocabulary writes a byte: visible Latin-1 characters as themselves, the other bytes
// as U+0100, U+0101, ... in turn.
std::array<std::string, 256> byte_names() {
  std::array<std::string, 256> names;
  char32_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool visible =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    char utf8[4];
    names[byte].assign(utf8, static_cast<std::size_t>(put_code_point(
                                 visible ? static_cast<char32_t>(byte) : next++, utf8)));
  }
  return names;
}

std::string take_fingerprint(const ByteBpeSettings& settings) {
  std::vector<const VocabularyEntry*> sorted;
  for (const auto& entry : settings.vocabulary) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  Fingerprint print;
  print.add("byte-level bpe 1");
  for (const auto* entry : sorted) print.add(entry->token).add(std::int64_t{entry->id});
  for (const auto& [left, right] : settings.merges) print.add(left).add(right);
  print.add(settings.unk_token)
      .add(std::int64_t{settings.fuse_unk * 2 + settings.add_prefix_space});
  return print.hex();
}

}  // namespace

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::set(std::int32_t left, std::int32_t right, std::uint32_t rank) {
  const std::uint64_t key = make_key(left, right);
  std::size_t place = key * multiplier >> shift_;
  while (slots_[place].rank != none && slots_[place].key != key)
    place = (place + 1) & (slots_.size() - 1);
  slots_[place] = {key, rank};
}

ByteBpe::ByteBpe(const ByteBpeSettings& settings, const std::string& where)
    : fuse_unk_(settings.fuse_unk),
      add_prefix_space_(settings.add_prefix_space),
      merges_(settings.merges.size()) {
  check_vocabulary(settings.vocabulary, where);
  const TokenIds id_of(settings.vocabulary, {});
  const auto names = byte_names();
  for (std::size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = id_of(names[byte]);
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
  fingerprint_ = take_fingerprint(settings);
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
  auto& [parts, before, after, heap] = work;
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

}  // namespace gpuhpc
