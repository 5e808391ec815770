#include "gpuhpc/eval/gold.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/label_list.hpp"

namespace gpuhpc {

GoldLabels read_gold(const std::filesystem::path& path, const Taxonomy& taxonomy) {
  const ClassWords words(taxonomy);
  GoldLabels gold;
  gold.path = path;
  std::unordered_set<std::string> seen;
  for_each_label_row(path, [&](const std::string& where, std::string id, std::string_view text) {
    auto classes = parse_label_list(text, words, where, true);
    if (classes.empty())
      throw input_error(
          "{}: document `{}` has no class; name its classes, or remove the line to leave it out",
          where, id);
    if (!seen.insert(id).second)
      throw input_error("{}: document `{}` has gold labels twice; keep one line", where, id);
    std::sort(classes.begin(), classes.end());
    gold.ids.push_back(std::move(id));
    gold.classes.push_back(std::move(classes));
  });
  if (gold.ids.empty())
    throw input_error("{}: no gold labels in this file; give one with `id<TAB>1,2,3` lines",
                      path.string());
  return gold;
}

LabelledDocuments pair_with_gold(const GoldLabels& gold, const Predictions& predictions) {
  std::unordered_map<std::string_view, std::size_t> place;
  for (std::size_t p = 0; p < predictions.ids.size(); ++p) place.emplace(predictions.ids[p], p);
  LabelledDocuments documents;
  std::int64_t common = 0;
  for (std::size_t d = 0; d < gold.ids.size(); ++d) {
    documents.ids.push_back(gold.ids[d]);
    documents.gold.push_back(gold.classes[d]);
    const auto found = place.find(gold.ids[d]);
    auto& labels = documents.predicted.emplace_back();
    std::vector<ClassScore> scores;
    if (found == place.end()) {
      if (documents.without_prediction++ == 0) documents.first_without_prediction = gold.ids[d];
    } else {
      ++common;
      labels = predictions.labels[found->second];
      std::sort(labels.begin(), labels.end());
      if (!predictions.scores.empty()) scores = predictions.scores[found->second];
    }
    if (!predictions.scores.empty()) documents.scores.push_back(std::move(scores));
  }
  documents.without_gold = static_cast<std::int64_t>(predictions.ids.size()) - common;
  if (common == 0)
    throw input_error(
        "{}: none of its {} documents is among the {} predicted ones; check that both files are "
        "about the same documents",
        gold.path.string(), gold.ids.size(), predictions.ids.size());
  return documents;
}

std::vector<std::string> uncovered(const LabelledDocuments& documents,
                                   const std::filesystem::path& gold) {
  std::vector<std::string> sentences;
  if (documents.without_prediction > 0)
    sentences.push_back(fmt::format(
        "{}: {} of its {} documents, the first `{}`, have no prediction and count as wrong; take "
        "them out, or write their ids as the corpus does, blanks too.",
        gold.string(), documents.without_prediction, documents.size(),
        documents.first_without_prediction));
  if (documents.without_gold > 0)
    sentences.push_back(fmt::format("{}: {} predicted documents are not in it and not measured.",
                                    gold.string(), documents.without_gold));
  return sentences;
}

}  // namespace gpuhpc
