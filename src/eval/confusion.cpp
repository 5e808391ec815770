#include "gpuhpc/eval/confusion.hpp"

#include <algorithm>

namespace gpuhpc {
namespace {

bool contains(const std::vector<std::int32_t>& classes, std::int32_t c) {
  return std::binary_search(classes.begin(), classes.end(), c);
}

void add_document(SiblingConfusion& group, const std::vector<std::int32_t>& gold,
                  const std::vector<std::int32_t>& predicted) {
  const std::size_t k = group.classes.size();
  std::vector<std::size_t> wrong;
  for (std::size_t j = 0; j < k; ++j)
    if (contains(predicted, group.classes[j]) && !contains(gold, group.classes[j]))
      wrong.push_back(j);
  for (std::size_t i = 0; i < k; ++i) {
    if (!contains(gold, group.classes[i])) continue;
    double* const row = group.counts.data() + i * (k + 1);
    if (contains(predicted, group.classes[i])) {
      row[i] += 1;
    } else if (wrong.empty()) {
      row[k] += 1;
    } else {
      for (const std::size_t j : wrong) row[j] += 1.0 / static_cast<double>(wrong.size());
      group.confused += 1;
    }
  }
}

}  // namespace

std::vector<SiblingConfusion> sibling_confusion(const Taxonomy& taxonomy,
                                                const LabelledDocuments& documents,
                                                std::size_t limit) {
  std::vector<SiblingConfusion> groups;
  std::vector<std::vector<std::size_t>> groups_of(static_cast<std::size_t>(taxonomy.size()));
  const auto add_group = [&](std::int32_t parent, const auto& members) {
    if (members.size() < 2) return;
    SiblingConfusion group;
    group.parent = parent;
    group.classes.assign(members.begin(), members.end());
    std::sort(group.classes.begin(), group.classes.end());
    group.counts.assign(group.classes.size() * (group.classes.size() + 1), 0);
    for (const std::int32_t c : group.classes) groups_of[c].push_back(groups.size());
    groups.push_back(std::move(group));
  };
  add_group(-1, taxonomy.roots());
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(taxonomy.size()); ++c)
    add_group(c, taxonomy.children(c));

  for (std::size_t d = 0; d < documents.ids.size(); ++d) {
    std::vector<std::size_t> touched;
    for (const std::int32_t c : documents.gold[d])
      touched.insert(touched.end(), groups_of[c].begin(), groups_of[c].end());
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::size_t g : touched)
      add_document(groups[g], documents.gold[d], documents.predicted[d]);
  }
  std::erase_if(groups, [](const SiblingConfusion& group) { return group.confused == 0; });
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.confused > b.confused; });
  if (groups.size() > limit) groups.resize(limit);
  return groups;
}

}  // namespace gpuhpc
