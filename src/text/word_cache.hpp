#pragma once
// Ids of the words met before: words of up to 16 bytes, two candidates in one cache line, fixed
// size, oldest out.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

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

}  // namespace gpuhpc
