#pragma once
// The texts of a column that differ.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/encode.hpp"

namespace gpuhpc {

// The first row of each, and the number of each row's text.
struct Distinct {
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> number;
  std::int64_t size() const { return std::ssize(rows); }
};

inline Distinct distinct_texts(const TokenDataset& column) {
  Distinct found;
  std::map<std::string_view, std::int32_t> numbers;
  for (std::int64_t i = 0; i < column.size(); ++i) {
    const auto [place, added] =
        numbers.emplace(column.text(i), static_cast<std::int32_t>(found.rows.size()));
    if (added) found.rows.push_back(i);
    found.number.push_back(place->second);
  }
  return found;
}

// Both must outlive it.
inline TokenSource rows_of(const TokenDataset& column, const Distinct& texts) {
  return {std::ssize(texts.rows),
          [&](std::int64_t i) { return column.tokens(texts.rows[static_cast<std::size_t>(i)]); },
          [&](std::int64_t i) {
            return fmt::format("the text of row {}", texts.rows[static_cast<std::size_t>(i)]);
          }};
}

}  // namespace gpuhpc
