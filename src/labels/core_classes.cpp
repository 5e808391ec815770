#include "gpuhpc/labels/core_classes.hpp"

#include <algorithm>
#include <limits>

namespace gpuhpc {

float core_confidence(const Taxonomy& taxonomy, std::span<const float> similarity, ClassId c,
                      bool against_parents) {
  const float own = similarity[static_cast<std::size_t>(c)];
  float rival = -std::numeric_limits<float>::infinity();
  const auto meet = [&](std::span<const ClassId> classes) {
    for (const ClassId other : classes)
      if (other != c) rival = std::max(rival, similarity[static_cast<std::size_t>(other)]);
  };
  if (against_parents) meet(taxonomy.parents(c));
  if (taxonomy.is_root(c)) meet(taxonomy.roots());
  for (const ClassId p : taxonomy.parents(c)) meet(taxonomy.children(p));
  return rival == -std::numeric_limits<float>::infinity() ? own : own - rival;
}

std::vector<float> confidence_medians(std::int64_t classes, std::span<const ClassId> candidates,
                                      std::span<const float> confidences) {
  std::vector<std::vector<float>> of_class(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < candidates.size(); ++i)
    of_class[static_cast<std::size_t>(candidates[i])].push_back(confidences[i]);
  std::vector<float> medians(of_class.size(), std::numeric_limits<float>::infinity());
  for (std::size_t c = 0; c < of_class.size(); ++c) {
    auto& values = of_class[c];
    if (values.empty()) continue;
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    medians[c] = *middle;
    if (values.size() % 2 == 0)
      medians[c] = .5f * (*std::max_element(values.begin(), middle) + *middle);
  }
  return medians;
}

std::vector<ClassId> select_core_classes(std::span<const Candidate> candidates,
                                         std::span<const float> confidences,
                                         std::span<const float> medians,
                                         const CoreClassOptions& options) {
  std::vector<ClassId> cores;
  std::size_t best = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ClassId c = candidates[i].id;
    const bool better = confidences[i] > confidences[best] ||
                        (confidences[i] == confidences[best] && c < candidates[best].id);
    if (better) best = i;
    if (confidences[i] >= medians[static_cast<std::size_t>(c)] &&
        (!options.require_positive || confidences[i] > 0))
      cores.push_back(c);
  }
  if (cores.empty() && options.best_when_empty && !candidates.empty())
    cores.push_back(candidates[best].id);
  std::sort(cores.begin(), cores.end());
  return cores;
}

std::vector<ClassId> best_path_core(const Taxonomy& taxonomy,
                                    std::span<const Candidate> candidates) {
  const auto better = [](const Candidate& a, const Candidate* b) {
    return b == nullptr || a.score > b->score || (a.score == b->score && a.id < b->id);
  };
  const Candidate* end = nullptr;
  for (const Candidate& candidate : candidates)
    if (taxonomy.is_root(candidate.id) && better(candidate, end)) end = &candidate;
  while (end != nullptr) {
    const auto children = taxonomy.children(end->id);
    const Candidate* next = nullptr;
    for (const Candidate& candidate : candidates)
      if (std::binary_search(children.begin(), children.end(), candidate.id) &&
          better(candidate, next))
        next = &candidate;
    if (next == nullptr) return {end->id};
    end = next;
  }
  return {};
}

namespace {

void sort_once(std::vector<ClassId>& classes) {
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
}

}  // namespace

TrainingLabels core_labels(const Taxonomy& taxonomy, std::span<const ClassId> cores) {
  TrainingLabels labels;
  std::vector<ClassId> below;
  for (const ClassId c : cores) {
    labels.positives.push_back(c);
    labels.positives.insert(labels.positives.end(), taxonomy.parents(c).begin(),
                            taxonomy.parents(c).end());
    below.insert(below.end(), taxonomy.children(c).begin(), taxonomy.children(c).end());
  }
  sort_once(labels.positives);
  sort_once(below);
  std::set_difference(below.begin(), below.end(), labels.positives.begin(), labels.positives.end(),
                      std::back_inserter(labels.masked));
  return labels;
}

TrainingLabels training_labels(const Taxonomy& taxonomy, std::span<const ClassId> cores,
                               MaskScope scope) {
  TrainingLabels labels;
  labels.positives = taxonomy.with_ancestors(cores);
  const std::span<const ClassId> above =
      scope == MaskScope::positives ? std::span<const ClassId>(labels.positives) : cores;
  std::vector<ClassId> below;
  for (const ClassId c : above)
    below.insert(below.end(), taxonomy.descendants(c).begin(), taxonomy.descendants(c).end());
  sort_once(below);
  std::set_difference(below.begin(), below.end(), labels.positives.begin(), labels.positives.end(),
                      std::back_inserter(labels.masked));
  return labels;
}

}  // namespace gpuhpc
