#include "id_set.hpp"

#include <utility>

namespace gpuhpc {

bool IdSet::insert(std::string_view id) {
  if (10 * (used_ + 1) > 6 * slots_.size()) grow();
  Hash128 hash = xxh3_128(id);
  if (hash == Hash128{}) hash.low = 1;
  if (!place(hash)) return false;
  ++used_;
  return true;
}

bool IdSet::place(Hash128 hash) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash.low & mask;; at = (at + 1) & mask) {
    if (slots_[at] == hash) return false;
    if (slots_[at] == Hash128{}) {
      slots_[at] = hash;
      return true;
    }
  }
}

void IdSet::grow() {
  std::vector<Hash128> old(slots_.empty() ? 1024 : 2 * slots_.size());
  std::swap(old, slots_);
  for (const Hash128& hash : old) {
    if (!(hash == Hash128{})) place(hash);
  }
}

}  // namespace gpuhpc
