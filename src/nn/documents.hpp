#pragma once
// Documents of a packed batch dealt to the threads; private to room nn.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpuhpc {

// Documents [result[i], result[i+1]) go to thread i: about equal work (a token costs its document's
// length and something fixed).
inline std::vector<std::int64_t> deal_documents(const std::vector<std::int32_t>& offsets,
                                                std::int64_t threads) {
  const auto documents = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<double> work(static_cast<std::size_t>(documents) + 1, 0);
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const auto length = static_cast<double>(offsets[b + 1] - offsets[b]);
    work[b + 1] = work[b] + length * (length + 32);
  }
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t thread = 1; thread <= threads; ++thread) {
    const double target = work.back() * static_cast<double>(thread) / static_cast<double>(threads);
    std::int64_t b = cuts.back();
    while (b < documents && work[static_cast<std::size_t>(b)] < target) ++b;
    cuts.push_back(thread == threads ? documents : b);
  }
  return cuts;
}

// body(first, last) with a range of documents for each thread that has any.
template <typename Body>
void each_document(const std::vector<std::int32_t>& offsets, const Body& body) {
  const std::int64_t threads =
      std::min<std::int64_t>(at::get_num_threads(), static_cast<std::int64_t>(offsets.size()) - 1);
  const auto cuts = deal_documents(offsets, threads);
  at::parallel_for(0, threads, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = cuts[static_cast<std::size_t>(first)],
                       end = cuts[static_cast<std::size_t>(last)];
    if (begin < end) body(begin, end);
  });
}

// Tokens of the longest of documents [first, last).
inline std::int64_t longest(const std::vector<std::int32_t>& offsets, std::int64_t first,
                            std::int64_t last) {
  std::int32_t most = 0;
  for (std::int64_t b = first; b < last; ++b)
    most = std::max(
        most, offsets[static_cast<std::size_t>(b) + 1] - offsets[static_cast<std::size_t>(b)]);
  return most;
}

}  // namespace gpuhpc
