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

// Sums over rows or documents are taken in lots, as many whatever the threads, and added up in the
// lots' order: so they have the same bits on any number of threads.
constexpr std::int64_t most_lots = 64;

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

// body(first, last, lot) with the documents of each lot, of document_lots().
inline std::int64_t document_lots(const std::vector<std::int32_t>& offsets) {
  return std::min(most_lots, static_cast<std::int64_t>(offsets.size()) - 1);
}
template <typename Body>
void each_lot_of_documents(const std::vector<std::int32_t>& offsets, const Body& body) {
  const auto cuts = deal_documents(offsets, document_lots(offsets));
  at::parallel_for(0, document_lots(offsets), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lot = begin; lot < end; ++lot) {
      const std::int64_t first = cuts[static_cast<std::size_t>(lot)],
                         last = cuts[static_cast<std::size_t>(lot) + 1];
      if (first < last) body(first, last, lot);
    }
  });
}

// body(first, last, lot) with the rows of each lot, whole blocks of 32, of row_lots().
inline std::int64_t row_lots(std::int64_t rows) { return std::min(most_lots, (rows + 63) / 64); }
template <typename Body>
void each_lot_of_rows(std::int64_t rows, const Body& body) {
  const std::int64_t lots = row_lots(rows), blocks = (rows + 31) / 32;
  at::parallel_for(0, lots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lot = begin; lot < end; ++lot)
      body(lot * blocks / lots * 32, std::min(rows, (lot + 1) * blocks / lots * 32), lot);
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
