#include "gpuhpc/infer/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

Quantization parse_quantization(std::string_view name) {
  constexpr std::array<std::string_view, 5> names{"none", "int8", "uint8", "binary", "ubinary"};
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end())
    throw usage_error("`{}` is no way to store vectors; use none, int8, uint8, binary or ubinary",
                      name);
  return static_cast<Quantization>(found - names.begin());
}

void ColumnRanges::add(MatrixView vectors) {
  for (std::int64_t i = 0; i < vectors.rows; ++i) {
    const auto row = vectors.row(i);
    if (rows++ == 0) low.assign(row.begin(), row.end()), high = low;
    for (std::size_t c = 0; c < row.size(); ++c) {
      low[c] = std::min(low[c], row[c]);
      high[c] = std::max(high[c], row[c]);
    }
  }
}

namespace {

std::vector<int> places_in_range(std::span<const float> vector, const ColumnRanges& ranges) {
  if (ranges.low.size() != vector.size())
    throw internal_error("ranges of {} columns for a vector of {}", ranges.low.size(),
                         vector.size());
  std::vector<int> places;
  for (std::size_t c = 0; c < vector.size(); ++c) {
    const float width = (ranges.high[c] - ranges.low[c]) / 255, step = width == 0 ? 1 : width;
    const float place = std::floor((vector[c] - ranges.low[c]) / step);
    places.push_back(static_cast<int>(std::clamp(place, 0.F, 255.F)));
  }
  return places;
}

std::vector<int> packed_signs(std::span<const float> vector) {
  std::vector<int> bytes((vector.size() + 7) / 8);
  for (std::size_t c = 0; c < vector.size(); ++c)
    if (vector[c] > 0) bytes[c / 8] |= 0x80 >> c % 8;
  return bytes;
}

}  // namespace

std::vector<int> quantize(std::span<const float> vector, Quantization kind,
                          const ColumnRanges& ranges) {
  std::vector<int> values =
      needs_ranges(kind) ? places_in_range(vector, ranges) : packed_signs(vector);
  if (kind == Quantization::int8 || kind == Quantization::binary)
    for (int& value : values) value -= 128;
  return values;
}

}  // namespace gpuhpc
