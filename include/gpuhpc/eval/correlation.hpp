#pragma once
// How closely two lists of numbers follow each other.
#include <span>

namespace gpuhpc {

// Of x and y, as many in both, from -1 to 1; NaN where one of them is constant.
double pearson(std::span<const double> x, std::span<const double> y);
// Of their ranks; equal numbers share the mean of their places.
double spearman(std::span<const double> x, std::span<const double> y);

}  // namespace gpuhpc
