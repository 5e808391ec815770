#pragma once
// Core classes of a document, chosen among its candidates (TaxoClass S2b), and what training makes
// of them.
#include <cstdint>
#include <span>
#include <vector>

#include "gpuhpc/labels/candidates.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// conf(d,c) = sim(d,c) - max of sim over the siblings of c, and over its parents; without any, sim
// itself. similarity (classes). `against_parents` false where similarities were summed upwards, so
// that no class can pass its parent.
float core_confidence(const Taxonomy& taxonomy, std::span<const float> similarity, ClassId c,
                      bool against_parents = true);

// Median of conf over the documents that have the class as a candidate: pairs (class, conf) of all
// documents in any order (ranks gather them). +infinity for a class that never was one. Even
// counts: the mean of the two middle ones.
std::vector<float> confidence_medians(std::int64_t classes, std::span<const ClassId> candidates,
                                      std::span<const float> confidences);

struct CoreClassOptions {
  bool require_positive = true;  // conf > 0 as well: the median alone doubles the wrong ones
  bool best_when_empty = false;  // then the candidate of highest conf is taken
};
// Ascending; may be empty. `confidences` matches `candidates`.
std::vector<ClassId> select_core_classes(std::span<const Candidate> candidates,
                                         std::span<const float> confidences,
                                         std::span<const float> medians,
                                         const CoreClassOptions& options);

// TELEClass without an LLM to choose among the candidates:
// the end of the best path, following the highest scored candidate child from the best root on.
// Empty without candidates.
std::vector<ClassId> best_path_core(const Taxonomy& taxonomy,
                                    std::span<const Candidate> candidates);

// What the bilinear head learns from: cores and their ancestors are positive; descendants of
// positives say nothing.
struct TrainingLabels {
  std::vector<ClassId> positives;  // ascending
  std::vector<ClassId> masked;     // ascending, no positives
};
enum class MaskScope {
  positives,  // descendants of every positive (TELEClass as in methods.md)
  cores       // descendants of the cores alone
};
TrainingLabels training_labels(const Taxonomy& taxonomy, std::span<const ClassId> cores,
                               MaskScope scope = MaskScope::positives);
// TaxoClass S3: cores and their parents are positive, the other children of cores say nothing.
TrainingLabels core_labels(const Taxonomy& taxonomy, std::span<const ClassId> cores);

}  // namespace gpuhpc
