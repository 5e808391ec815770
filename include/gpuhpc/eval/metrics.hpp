#pragma once
// The measures of hierarchical multi-label classification, every variant by name, with bootstrap
// intervals.
//
// Over a document's gold set T, predicted set P and class scores s (C classes in all; sets as
// given, not closed under ancestors unless said):
//   example_f1            mean over documents of 2|T^P| / (|T|+|P|); example_precision |T^P|/|P|,
//   example_recall |T^P|/|T| micro_*               over all (document, class) pairs;  macro_*: mean
//   over all C classes, 0 where undefined macro_f1_gold_classes the same mean over the classes that
//   occur in gold exact_match           share of documents with T = P;  hamming_loss: share of
//   wrong (document, class) pairs hierarchical_*        micro measures of the ancestor-closed sets
//   (Kiritchenko et al., 2006) level_K_f1            micro-F1 of the classes at depth K (longest
//   path; a root has depth 1)
// Ranking measures, null without scores; classes without a score come last:
//   precision_at_1        share of documents whose best class is in T
//   precision_at_3        |T ^ best 3| / min(3,|T|), mean over documents (TaxoClass, eq. 10);
//   precision_at_3_plain: / 3 mrr_filtered          mean over gold labels of 1 / (1 + number of
//   classes outside T scoring >= the label) mrr_raw               mean over documents of the mean
//   over T of 1 / rank among all classes (below 1 when |T| > 1) top5_accuracy         share of
//   documents with a gold class among the best 5
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

struct Figure {
  std::string name;
  std::optional<double> value, low,
      high;  // none: cannot be computed (ranking without scores; interval without resamples)
};

// Counts of (document, class) pairs, and what follows from them; 0 where undefined.
struct PairCounts {
  std::int64_t gold = 0, predicted = 0, correct = 0;
  double precision() const {
    return predicted ? static_cast<double>(correct) / static_cast<double>(predicted) : 0;
  }
  double recall() const {
    return gold ? static_cast<double>(correct) / static_cast<double>(gold) : 0;
  }
  double f1() const {
    return gold + predicted
               ? 2.0 * static_cast<double>(correct) / static_cast<double>(gold + predicted)
               : 0;
  }
};

struct Evaluation {
  std::int64_t documents = 0, without_gold = 0, without_prediction = 0;
  std::int64_t bootstrap_samples = 0, seed = 0;
  std::vector<Figure> figures;      // in the order of the table above
  std::vector<PairCounts> classes;  // (C)
  std::vector<PairCounts> levels;   // [k] = depth k + 1

  const Figure* find(const std::string& name) const;  // nullptr when there is none of this name
};

// `threads` share the resamples; the result does not depend on it. Throws input_error when there
// are no documents.
Evaluation evaluate(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                    const EvalOptions& options, int threads = 1);

// Depth of every class (Taxonomy::depth, 1 at the roots) and the number of levels.
struct Levels {
  std::vector<std::int32_t> of_class;  // (C)
  std::int32_t count = 0;
};
Levels class_levels(const Taxonomy& taxonomy);

// Percentile bootstrap over documents (Efron, 1979): resample k draws N of N documents with
// replacement.

// How often each of `documents` documents occurs in resample number `resample`. Depends on the
// arguments alone: any thread or rank can make any resample.
void draw_counts(std::uint64_t seed, std::int64_t resample, std::int64_t documents,
                 std::vector<std::uint16_t>& counts);

// The q-quantile (0..1) of `values`, linear between neighbours as in NumPy. `values` is sorted in
// place and must not be empty.
double quantile(std::span<double> values, double q);

}  // namespace gpuhpc
