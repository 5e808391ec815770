#pragma once
// Turns class ids and label sets into the titles, paths and counts of a ReportModel.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/report/model.hpp"

namespace gpuhpc {

// Classes with their predicted document counts (`labels`: N documents).
void fill_classes(ReportModel& model, const Taxonomy& taxonomy,
                  std::span<const std::vector<std::int32_t>> labels);
// Figures, gold counts, confusion and histograms; marks the model as having gold. After
// fill_classes.
void fill_evaluation(ReportModel& model, const EvaluationDetails& details);
// One example. `gold` empty: unknown. `scores` in the order of sort_scores, or empty.
void fill_example(ReportModel& model, const Taxonomy& taxonomy, const ExampleLabels& labels,
                  const std::string& text, std::span<const ClassScore> scores);

}  // namespace gpuhpc
