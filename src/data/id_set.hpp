#pragma once
// Which document ids were seen: 16 bytes of hash each, open addressing, at most 60% full.
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {

class IdSet {
 public:
  // False when `id` was there already.
  bool insert(std::string_view id);

 private:
  void grow();
  bool place(Hash128 hash);
  std::vector<Hash128> slots_;  // all-zero: free
  std::size_t used_ = 0;
};

}  // namespace gpuhpc
