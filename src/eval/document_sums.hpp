#pragma once
// Every figure but the macro ones is a ratio of two sums over documents; here is what a document
// adds to them.
#include <cstdint>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/eval/metrics.hpp"

namespace gpuhpc::detail {

struct Ratio {
  std::string name;
  std::size_t numerator, denominator;  // columns of DocumentSums
  double scale = 1;                    // of the numerator
};

struct DocumentSums {
  std::size_t columns = 0;
  std::vector<double> values;  // (N, columns)
  std::vector<Ratio> ratios;
  bool ranking = false;  // whether the ranking figures are among `ratios`

  double figure(const Ratio& ratio, const std::vector<double>& sums) const {
    return sums[ratio.denominator] == 0
               ? 0
               : ratio.scale * sums[ratio.numerator] / sums[ratio.denominator];
  }
};

DocumentSums sum_documents(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                           const Levels& levels);

// The ranking figures, in their order, also when they cannot be computed.
const std::vector<std::string>& ranking_names();

}  // namespace gpuhpc::detail
