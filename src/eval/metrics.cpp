#include "gpuhpc/eval/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "document_sums.hpp"
#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc {
namespace {

using detail::DocumentSums;

// The four means over classes. Classes with neither gold nor prediction count as 0, as in
// scikit-learn.
constexpr std::size_t macro_figures = 4;
const std::array<const char*, macro_figures> macro_names = {
    "macro_f1", "macro_precision", "macro_recall", "macro_f1_gold_classes"};

std::vector<PairCounts> count_classes(const LabelledDocuments& documents, std::int64_t class_count,
                                      const std::vector<std::uint16_t>* weights) {
  std::vector<PairCounts> classes(static_cast<std::size_t>(class_count));
  for (std::size_t d = 0; d < documents.ids.size(); ++d) {
    const std::int64_t weight = weights ? (*weights)[d] : 1;
    if (weight == 0) continue;
    const auto& gold = documents.gold[d];
    for (const std::int32_t c : gold) classes[c].gold += weight;
    for (const std::int32_t c : documents.predicted[d]) {
      classes[c].predicted += weight;
      if (std::binary_search(gold.begin(), gold.end(), c)) classes[c].correct += weight;
    }
  }
  return classes;
}

// Mean of a measure over all classes. Over a resample a rare class may be absent; its measure is
// undefined there, so the mean is taken over the classes where it is defined and scaled to as many
// as have it over all documents: counting absent classes as 0 would put the interval below the
// figure itself.
struct ClassMean {
  double sum = 0;
  std::int64_t defined = 0, whole_defined = 0;
  void add(double value, bool is_defined, bool in_whole) {
    whole_defined += in_whole;
    if (!is_defined) return;
    ++defined;
    sum += value;
  }
  double over(std::int64_t classes) const {
    return defined ? sum / static_cast<double>(defined) * static_cast<double>(whole_defined) /
                         static_cast<double>(classes)
                   : 0;
  }
};

// `whole` are the counts over all documents.
std::array<double, macro_figures> macro_means(const std::vector<PairCounts>& classes,
                                              const std::vector<PairCounts>& whole) {
  ClassMean f1, precision, recall;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const bool gold = classes[c].gold > 0,
               whole_gold = whole[c].gold > 0;  // without gold F1 is 0 whatever is predicted
    f1.add(classes[c].f1(), gold, whole_gold);
    recall.add(classes[c].recall(), gold, whole_gold);
    precision.add(classes[c].precision(), classes[c].predicted > 0, whole[c].predicted > 0);
  }
  const auto count = static_cast<std::int64_t>(classes.size());
  return {f1.over(count), precision.over(count), recall.over(count), f1.over(f1.whole_defined)};
}

// Values of all figures (ratios, then macro) in one resample, or over all documents when `weights`
// is null.
std::vector<double> all_figures(const DocumentSums& sums, const LabelledDocuments& documents,
                                const std::vector<PairCounts>& whole,
                                const std::vector<std::uint16_t>* weights) {
  std::vector<double> totals(sums.columns, 0.0);
  for (std::size_t d = 0; d < documents.ids.size(); ++d) {
    const double weight = weights ? (*weights)[d] : 1;
    if (weight == 0) continue;
    const double* const row = sums.values.data() + d * sums.columns;
    for (std::size_t k = 0; k < sums.columns; ++k) totals[k] += weight * row[k];
  }
  std::vector<double> figures;
  for (const detail::Ratio& ratio : sums.ratios) figures.push_back(sums.figure(ratio, totals));
  const auto classes =
      weights ? count_classes(documents, static_cast<std::int64_t>(whole.size()), weights) : whole;
  for (const double value : macro_means(classes, whole)) figures.push_back(value);
  return figures;
}

// (figures, samples)
std::vector<std::vector<double>> resample(const DocumentSums& sums,
                                          const LabelledDocuments& documents,
                                          const std::vector<PairCounts>& whole,
                                          const EvalOptions& options, int threads) {
  const auto samples = static_cast<std::size_t>(options.bootstrap_samples);
  std::vector<std::vector<double>> values(sums.ratios.size() + macro_figures,
                                          std::vector<double>(samples));
  std::vector<std::vector<std::uint16_t>> counts(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(0, options.bootstrap_samples, std::max(1, threads), [&](std::int64_t k, int thread) {
    draw_counts(static_cast<std::uint64_t>(options.seed), k, documents.size(), counts[thread]);
    const std::vector<double> figures = all_figures(sums, documents, whole, &counts[thread]);
    for (std::size_t f = 0; f < figures.size(); ++f) values[f][k] = figures[f];
  });
  return values;
}

// The middle 95% of the resamples. F1 of a class with a handful of documents is lower in most
// resamples than over all (the ratio is concave, and duplicates replace documents), so the macro
// figures' resamples are `centred`: moved until their mean is the value.
std::pair<double, double> interval(std::vector<double>& samples, double value, bool centred) {
  const double low = quantile(samples, 0.025), high = quantile(samples, 0.975);
  if (!centred) return {low, high};
  const double shift = value - std::accumulate(samples.begin(), samples.end(), 0.0) /
                                   static_cast<double>(samples.size());
  return {std::clamp(low + shift, 0.0, 1.0), std::clamp(high + shift, 0.0, 1.0)};
}

}  // namespace

void sort_scores(std::vector<ClassScore>& scores) {
  std::sort(scores.begin(), scores.end(), [](const ClassScore& a, const ClassScore& b) {
    return a.score != b.score ? a.score > b.score : a.class_id < b.class_id;
  });
}

const Figure* Evaluation::find(const std::string& name) const {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const Figure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

Levels class_levels(const Taxonomy& taxonomy) {
  Levels levels;
  levels.of_class.resize(static_cast<std::size_t>(taxonomy.size()));
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(taxonomy.size()); ++c) {
    levels.of_class[c] = static_cast<std::int32_t>(taxonomy.depth(c));
    levels.count = std::max(levels.count, levels.of_class[c]);
  }
  return levels;
}

Evaluation evaluate(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                    const EvalOptions& options, int threads) {
  if (documents.ids.empty())
    throw input_error(
        "no document has both gold labels and a prediction: there is nothing to measure");
  Evaluation evaluation;
  evaluation.documents = documents.size();
  evaluation.without_gold = documents.without_gold;
  evaluation.without_prediction = documents.without_prediction;
  evaluation.bootstrap_samples = options.bootstrap_samples;
  evaluation.seed = options.seed;
  evaluation.classes = count_classes(documents, taxonomy.size(), nullptr);
  const Levels levels = class_levels(taxonomy);
  evaluation.levels.resize(static_cast<std::size_t>(levels.count));
  for (std::size_t c = 0; c < evaluation.classes.size(); ++c) {
    PairCounts& level = evaluation.levels[levels.of_class[c] - 1];
    level.gold += evaluation.classes[c].gold;
    level.predicted += evaluation.classes[c].predicted;
    level.correct += evaluation.classes[c].correct;
  }

  const DocumentSums sums = detail::sum_documents(taxonomy, documents, levels);
  const std::vector<double> values = all_figures(sums, documents, evaluation.classes, nullptr);
  auto samples = resample(sums, documents, evaluation.classes, options, threads);
  const auto add = [&](std::size_t f, const std::string& name) {
    Figure figure{name, values[f], std::nullopt, std::nullopt};
    if (options.bootstrap_samples > 0)
      std::tie(figure.low, figure.high) = interval(samples[f], values[f], f >= sums.ratios.size());
    evaluation.figures.push_back(figure);
  };
  const std::size_t before_macro = 6;  // the macro figures stand behind the micro ones
  for (std::size_t f = 0; f < sums.ratios.size(); ++f) {
    if (f == before_macro)
      for (std::size_t m = 0; m < macro_figures; ++m) add(sums.ratios.size() + m, macro_names[m]);
    add(f, sums.ratios[f].name);
  }
  if (!sums.ranking)
    for (const std::string& name : detail::ranking_names())
      evaluation.figures.push_back({name, {}, {}, {}});
  return evaluation;
}

void draw_counts(std::uint64_t seed, std::int64_t resample, std::int64_t documents,
                 std::vector<std::uint16_t>& counts) {
  counts.assign(static_cast<std::size_t>(documents), 0);
  RandomStream random(seed, static_cast<std::uint64_t>(resample));
  const auto bound = static_cast<std::uint64_t>(documents);
  // Two draws of 32 bits a number, scaled by multiplication: the bias is below documents / 2^32.
  for (std::int64_t i = 0; i < documents; i += 2) {
    const std::uint64_t bits = random.next();
    ++counts[((bits & 0xffffffffu) * bound) >> 32];
    if (i + 1 < documents) ++counts[((bits >> 32) * bound) >> 32];
  }
}

double quantile(std::span<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - std::floor(position)) * (values[above] - values[below]);
}

}  // namespace gpuhpc
