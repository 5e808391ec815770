#pragma once
// Percentile bootstrap over documents (Efron, 1979): resample k draws N of N documents with
// replacement.
#include <cstdint>
#include <span>
#include <vector>

namespace gpuhpc {

// How often each of `documents` documents occurs in resample number `resample`. Depends on the
// arguments alone: any thread or rank can make any resample.
void draw_counts(std::uint64_t seed, std::int64_t resample, std::int64_t documents,
                 std::vector<std::uint16_t>& counts);

// The q-quantile (0..1) of `values`, linear between neighbours as in NumPy. `values` is sorted in
// place and must not be empty.
double quantile(std::span<double> values, double q);

}  // namespace gpuhpc
