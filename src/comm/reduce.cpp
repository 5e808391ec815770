#include "gpuhpc/comm/reduce.hpp"

#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>

namespace gpuhpc {
namespace {

// Shifts and adds alone, so that the compiler makes vector code of it. NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits;
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static BFloat16 rounded(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t even = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return {static_cast<std::uint16_t>(value == value ? even : 0x7fc0)};
  }
};
struct Float16 {
  c10::Half value;
  explicit operator float() const { return value; }
  static Float16 rounded(float wide) { return {c10::Half(wide)}; }
};

template <typename Narrow, typename Wide>
Narrow narrow(Wide value) {
  if constexpr (std::is_same_v<Narrow, Wide>)
    return value;
  else
    return Narrow::rounded(value);
}

// Blocks that stay in the first-level cache while all rows are added to them.
constexpr std::int64_t kBlock = 1024;

template <typename T, typename Wide, typename Combine>
void reduce_with(std::span<const void* const> rows, void* into, std::int64_t count,
                 Combine combine) {
  Wide sums[kBlock];
  T* const out = static_cast<T*>(into);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t n = std::min(kBlock, count - at);
    const T* first = static_cast<const T*>(rows[0]) + at;
    for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<Wide>(first[i]);
    for (const void* row : rows.subspan(1)) {
      const T* more = static_cast<const T*>(row) + at;
      for (std::int64_t i = 0; i < n; ++i) sums[i] = combine(sums[i], static_cast<Wide>(more[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) out[at + i] = narrow<T>(sums[i]);
  }
}

// Binary counter: after r rows, partial[l] holds the sum of 2^l of them for each bit l of r.
template <typename T, typename Wide>
void add_tree(std::span<const void* const> rows, void* into, std::int64_t count) {
  std::array<std::array<Wide, kBlock>, 16> partial;  // 2^16 ranks
  std::array<Wide, kBlock> sums;
  T* const out = static_cast<T*>(into);
  const auto add = [&](std::size_t level, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += partial[level][i];
  };
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t n = std::min(kBlock, count - at);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const T* row = static_cast<const T*>(rows[r]) + at;
      for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<Wide>(row[i]);
      std::size_t level = 0;
      for (; (r >> level) & 1; ++level) add(level, n);
      if (r + 1 < rows.size())
        std::copy_n(sums.begin(), n, partial[level].begin());
      else
        for (++level; r >> level != 0; ++level)
          if (((r + 1) >> level) & 1) add(level, n);
    }
    for (std::int64_t i = 0; i < n; ++i) out[at + i] = narrow<T>(sums[i]);
  }
}

template <typename T, typename Wide = T>
void reduce_type(std::span<const void* const> rows, void* into, std::int64_t count, Reduce reduce) {
  switch (reduce) {
    case Reduce::sum:
      return reduce_with<T, Wide>(rows, into, count,
                                  [](Wide a, Wide b) { return static_cast<Wide>(a + b); });
    case Reduce::max:
      return reduce_with<T, Wide>(rows, into, count, [](Wide a, Wide b) { return a > b ? a : b; });
    case Reduce::min:
      return reduce_with<T, Wide>(rows, into, count, [](Wide a, Wide b) { return a < b ? a : b; });
    case Reduce::tree_sum:
      return add_tree<T, Wide>(rows, into, count);
  }
}

}  // namespace

void reduce_rows(std::span<const void* const> rows, void* into, std::int64_t count, DataType type,
                 Reduce reduce) {
  switch (type) {
    case DataType::float32:
      return reduce_type<float>(rows, into, count, reduce);
    case DataType::float64:
      return reduce_type<double>(rows, into, count, reduce);
    case DataType::bfloat16:
      return reduce_type<BFloat16, float>(rows, into, count, reduce);
    case DataType::float16:
      return reduce_type<Float16, float>(rows, into, count, reduce);
    case DataType::int32:
      return reduce_type<std::int32_t>(rows, into, count, reduce);
    case DataType::int64:
      return reduce_type<std::int64_t>(rows, into, count, reduce);
    case DataType::uint8:
      return reduce_type<std::uint8_t>(rows, into, count, reduce);
  }
}

}  // namespace gpuhpc
