#include "gpuhpc/report/fill.hpp"

#include <algorithm>

namespace gpuhpc {
namespace {

bool contains(const std::vector<std::int32_t>& classes, std::int32_t c) {
  return std::find(classes.begin(), classes.end(), c) != classes.end();
}

// The classes of `set` that none of its other classes lies below: the ends of its paths.
std::vector<std::int32_t> deepest(const Taxonomy& taxonomy, const std::vector<std::int32_t>& set) {
  std::vector<std::int32_t> ends;
  for (const std::int32_t c : set) {
    const auto children = taxonomy.children(c);
    if (std::none_of(children.begin(), children.end(),
                     [&](std::int32_t child) { return contains(set, child); }))
      ends.push_back(c);
  }
  return ends;
}

// From a root down to `end`, through parents that are in `set` where there are such.
std::vector<ReportStep> path_to(const Taxonomy& taxonomy, std::int32_t end,
                                const std::vector<std::int32_t>& set, const ExampleLabels& labels) {
  std::vector<ReportStep> path;
  for (std::int32_t c = end;;) {
    path.push_back(
        {std::string(taxonomy.title(c)), contains(labels.predicted, c), contains(labels.gold, c)});
    const auto parents = taxonomy.parents(c);
    if (parents.empty()) break;
    const auto chosen = std::find_if(parents.begin(), parents.end(),
                                     [&](std::int32_t parent) { return contains(set, parent); });
    c = chosen != parents.end() ? *chosen : parents.front();
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

void fill_classes(ReportModel& model, const Taxonomy& taxonomy,
                  std::span<const std::vector<std::int32_t>> labels) {
  model.documents = static_cast<std::int64_t>(labels.size());
  model.classes.clear();
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(taxonomy.size()); ++c) {
    ReportClass& added = model.classes.emplace_back();
    added.title = taxonomy.title(c);
    added.parents.assign(taxonomy.parents(c).begin(), taxonomy.parents(c).end());
    added.children.assign(taxonomy.children(c).begin(), taxonomy.children(c).end());
  }
  for (const auto& document : labels)
    for (const std::int32_t c : document) ++model.classes[c].predicted;
}

void fill_evaluation(ReportModel& model, const EvaluationDetails& details) {
  model.has_gold = true;
  model.evaluation = details.evaluation;
  model.confusion = details.confusion;
  model.histograms = details.histograms;
  for (std::size_t c = 0; c < model.classes.size() && c < details.evaluation.classes.size(); ++c)
    model.classes[c].gold = details.evaluation.classes[c].gold;
}

void fill_example(ReportModel& model, const Taxonomy& taxonomy, const ExampleLabels& labels,
                  const std::string& text, std::span<const ClassScore> scores) {
  ReportExample example{labels.id, text, {}, {}, {}};
  for (const std::int32_t end : deepest(taxonomy, labels.predicted)) {
    example.predicted.push_back(path_to(taxonomy, end, labels.predicted, labels));
    const auto score = std::find_if(scores.begin(), scores.end(),
                                    [&](const ClassScore& s) { return s.class_id == end; });
    if (score != scores.end()) example.scores.push_back(score->score);
  }
  if (example.scores.size() != example.predicted.size()) example.scores.clear();
  for (const std::int32_t end : deepest(taxonomy, labels.gold))
    if (!contains(labels.predicted, end))
      example.missed.push_back(path_to(taxonomy, end, labels.gold, labels));
  model.examples.push_back(std::move(example));
}

}  // namespace gpuhpc
