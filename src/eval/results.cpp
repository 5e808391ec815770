#include "gpuhpc/eval/results.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

using Ordered = nlohmann::ordered_json;

// apart from the streams of the resamples, 0, 1, 2, ...
constexpr std::uint64_t example_stream = ~std::uint64_t{0};

Ordered number_or_null(const std::optional<double>& value) {
  return value ? Ordered(*value) : Ordered(nullptr);
}

Ordered counts_json(const PairCounts& counts) {
  return {{"gold", counts.gold},       {"predicted", counts.predicted},
          {"correct", counts.correct}, {"precision", counts.precision()},
          {"recall", counts.recall()}, {"f1", counts.f1()}};
}

PairCounts read_counts(const Json& value) {
  return {integer(value.at("gold")), integer(value.at("predicted")), integer(value.at("correct"))};
}

std::vector<std::int32_t> read_classes(const Json& list) {
  std::vector<std::int32_t> classes;
  for (const Json& value : list) {
    const std::int64_t c = integer(value);
    if (c < 0 || c > std::numeric_limits<std::int32_t>::max()) throw std::out_of_range("class");
    classes.push_back(static_cast<std::int32_t>(c));
  }
  return classes;
}

std::optional<double> read_optional(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Ordered histogram_json(const ScoreHistogram& histogram) {
  return {{"correct", histogram.correct}, {"wrong", histogram.wrong}, {"sums", histogram.sums}};
}

ScoreHistogram read_histogram(const Json& value) {
  ScoreHistogram histogram;
  histogram.correct = value.at("correct").get<decltype(histogram.correct)>();
  histogram.wrong = value.at("wrong").get<decltype(histogram.wrong)>();
  histogram.sums = value.value("sums", decltype(histogram.sums){});  // older runs have none
  return histogram;
}

Ordered figures_json(const std::vector<Figure>& figures) {
  Ordered list = Ordered::array();
  for (const Figure& figure : figures)
    list.push_back({{"name", figure.name},
                    {"value", number_or_null(figure.value)},
                    {"low", number_or_null(figure.low)},
                    {"high", number_or_null(figure.high)}});
  return list;
}

Evaluation read_figures(const Json& json) {
  Evaluation evaluation;
  evaluation.documents = integer(json.at("documents"));
  evaluation.without_gold = integer(json.at("documents_without_gold"));
  evaluation.without_prediction = integer(json.at("documents_without_prediction"));
  evaluation.bootstrap_samples = integer(json.at("bootstrap_samples"));
  evaluation.seed = integer(json.at("bootstrap_seed"));
  for (const Json& figure : json.at("figures"))
    evaluation.figures.push_back(
        {figure.at("name").get<std::string>(), read_optional(figure.at("value")),
         read_optional(figure.at("low")), read_optional(figure.at("high"))});
  for (const Json& counts : json.at("classes")) evaluation.classes.push_back(read_counts(counts));
  for (const Json& counts : json.at("levels")) evaluation.levels.push_back(read_counts(counts));
  return evaluation;
}

EvaluationDetails read_details(const Json& json) {
  EvaluationDetails details;
  details.evaluation = read_figures(json);
  for (const Json& value : json.at("confusion")) {
    SiblingConfusion group;
    group.parent = static_cast<std::int32_t>(integer(value.at("parent")));
    group.classes = read_classes(value.at("classes"));
    group.counts = value.at("counts").get<std::vector<double>>();
    group.confused = value.at("confused").get<double>();
    if (group.counts.size() != group.classes.size() * (group.classes.size() + 1))
      throw std::out_of_range("confusion counts");
    details.confusion.push_back(std::move(group));
  }
  details.histograms.with_gold = true;
  details.histograms.best = read_histogram(json.at("best_score_histogram"));
  details.histograms.predicted = read_histogram(json.at("predicted_score_histogram"));
  details.coverage.risk = json.value("risk_by_coverage", std::vector<double>{});
  for (const Json& value : json.at("examples"))
    details.examples.push_back({value.at("id").get<std::string>(),
                                read_classes(value.at("predicted")),
                                read_classes(value.at("gold"))});
  return details;
}

}  // namespace

std::vector<std::int64_t> draw_examples(std::int64_t documents, std::int64_t count,
                                        std::uint64_t seed) {
  // Floyd's sampling: `count` draws however many documents there are.
  RandomStream random(seed, example_stream);
  std::vector<std::int64_t> chosen;
  for (std::int64_t j = std::max<std::int64_t>(0, documents - count); j < documents; ++j) {
    const auto draw = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(j + 1)));
    chosen.push_back(std::find(chosen.begin(), chosen.end(), draw) == chosen.end() ? draw : j);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

EvaluationDetails evaluate_in_detail(const Taxonomy& taxonomy, const LabelledDocuments& documents,
                                     const EvalOptions& options, int threads) {
  constexpr std::size_t groups_shown = 6;
  EvaluationDetails details;
  details.evaluation = evaluate(taxonomy, documents, options, threads);
  details.confusion = sibling_confusion(taxonomy, documents, groups_shown);
  details.histograms = score_histograms(documents.scores, documents.predicted, documents.gold);
  details.coverage = risk_coverage(documents.scores, documents.gold);
  const auto add = [&](const char* name, std::optional<double> value) {
    details.evaluation.figures.push_back({name, value, {}, {}});
  };
  add("ece_best", details.histograms.best.calibration_error());
  add("ece_best_by_chance", details.histograms.best.calibration_error_by_chance());
  add("ece_labels", details.histograms.predicted.calibration_error());
  add("ece_labels_by_chance", details.histograms.predicted.calibration_error_by_chance());
  add("aurc", details.coverage.area);
  for (const std::int64_t d :
       draw_examples(documents.size(), options.examples, static_cast<std::uint64_t>(options.seed)))
    details.examples.push_back({documents.ids[d], documents.predicted[d], documents.gold[d]});
  return details;
}

void write_metrics(const std::filesystem::path& path, const Evaluation& evaluation) {
  Ordered json;
  for (const Figure& figure : evaluation.figures) {
    json[figure.name] = number_or_null(figure.value);
    json[figure.name + "_low"] = number_or_null(figure.low);
    json[figure.name + "_high"] = number_or_null(figure.high);
  }
  PairCounts all;
  for (const PairCounts& level : evaluation.levels) {
    all.gold += level.gold;
    all.predicted += level.predicted;
    all.correct += level.correct;
  }
  json["documents"] = evaluation.documents;
  json["documents_without_gold"] = evaluation.without_gold;
  json["documents_without_prediction"] = evaluation.without_prediction;
  json["gold_labels"] = all.gold;
  json["predicted_labels"] = all.predicted;
  json["correct_labels"] = all.correct;
  json["bootstrap_samples"] = evaluation.bootstrap_samples;
  json["bootstrap_seed"] = evaluation.seed;
  write_json(path, json);
}

void write_evaluation(const std::filesystem::path& path, const EvaluationDetails& details,
                      const Taxonomy& taxonomy) {
  const Evaluation& evaluation = details.evaluation;
  Ordered json;
  json["documents"] = evaluation.documents;
  json["documents_without_gold"] = evaluation.without_gold;
  json["documents_without_prediction"] = evaluation.without_prediction;
  json["bootstrap_samples"] = evaluation.bootstrap_samples;
  json["bootstrap_seed"] = evaluation.seed;
  json["figures"] = figures_json(evaluation.figures);
  json["levels"] = Ordered::array();
  for (const PairCounts& counts : evaluation.levels) json["levels"].push_back(counts_json(counts));
  json["classes"] = Ordered::array();
  for (std::size_t c = 0; c < evaluation.classes.size(); ++c) {
    Ordered row = {{"class", taxonomy.label(static_cast<std::int32_t>(c))}};
    row.update(counts_json(evaluation.classes[c]));
    json["classes"].push_back(std::move(row));
  }
  json["confusion"] = Ordered::array();
  for (const SiblingConfusion& group : details.confusion)
    json["confusion"].push_back({{"parent", group.parent},
                                 {"confused", group.confused},
                                 {"classes", group.classes},
                                 {"counts", group.counts}});
  json["best_score_histogram"] = histogram_json(details.histograms.best);
  json["predicted_score_histogram"] = histogram_json(details.histograms.predicted);
  json["risk_by_coverage"] = details.coverage.risk;
  json["examples"] = Ordered::array();
  for (const ExampleLabels& example : details.examples)
    json["examples"].push_back(
        {{"id", example.id}, {"predicted", example.predicted}, {"gold", example.gold}});
  write_json(path, json);
}

EvaluationDetails read_evaluation(const std::filesystem::path& path) {
  const Json json = read_json(path);
  try {
    return read_details(json);
  } catch (const std::exception&) {
    throw input_error("{}: not an evaluation that this program wrote; run `gpuhpc evaluate` again",
                      path.string());
  }
}

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

void ScoreHistogram::add(float score, bool right) {
  const auto bin =
      static_cast<std::size_t>(std::clamp(score, 0.0f, 1.0f) * static_cast<float>(bins));
  ++(right ? correct : wrong)[std::min(bin, bins - 1)];
  const auto s = static_cast<double>(score);
  sums[std::min(bin, bins - 1)] += s;
  variances[std::min(bin, bins - 1)] += s * (1 - s);
  probabilities = probabilities && score >= 0 && score <= 1;
}

std::optional<double> ScoreHistogram::calibration_error() const {
  double all = 0, error = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    all += static_cast<double>(count(bin));
    error += std::abs(static_cast<double>(correct[bin]) - sums[bin]);
  }
  return all > 0 && probabilities ? std::optional(error / all) : std::nullopt;
}

std::optional<double> ScoreHistogram::calibration_error_by_chance() const {
  double all = 0, error = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    all += static_cast<double>(count(bin));
    error += std::sqrt(2 / std::numbers::pi * variances[bin]);
  }
  return all > 0 && probabilities ? std::optional(error / all) : std::nullopt;
}

RiskCoverage risk_coverage(std::span<const std::vector<ClassScore>> scores,
                           std::span<const std::vector<std::int32_t>> gold) {
  std::vector<std::pair<float, bool>> best;  // score and whether it is wrong
  for (std::size_t d = 0; d < scores.size(); ++d)
    if (!scores[d].empty())
      best.emplace_back(scores[d].front().score,
                        !std::ranges::binary_search(gold[d], scores[d].front().class_id));
  std::ranges::sort(best, std::ranges::greater(), &std::pair<float, bool>::first);
  RiskCoverage coverage;
  double wrong = 0, sum = 0, of_each = 0;
  for (std::size_t i = 0, tied = 0; i < best.size(); ++i) {
    if (i == tied) {  // documents of one score have no order: each is as wrong as they all are
      double among = 0;
      for (; tied < best.size() && best[tied].first == best[i].first; ++tied)
        among += best[tied].second;
      of_each = among / static_cast<double>(tied - i);
    }
    wrong += of_each;
    const double risk = wrong / static_cast<double>(i + 1);
    sum += risk;
    while ((i + 1) * RiskCoverage::points >= (coverage.risk.size() + 1) * best.size())
      coverage.risk.push_back(risk);
  }
  if (!best.empty()) coverage.area = sum / static_cast<double>(best.size());
  return coverage;
}

ScoreHistograms score_histograms(std::span<const std::vector<ClassScore>> scores,
                                 std::span<const std::vector<std::int32_t>> predicted,
                                 std::span<const std::vector<std::int32_t>> gold) {
  ScoreHistograms histograms;
  histograms.with_gold = !gold.empty();
  for (std::size_t d = 0; d < scores.size(); ++d) {
    const auto right = [&](std::int32_t c) {
      return gold.empty() || std::binary_search(gold[d].begin(), gold[d].end(), c);
    };
    if (!scores[d].empty())
      histograms.best.add(scores[d].front().score, right(scores[d].front().class_id));
    for (const ClassScore& s : scores[d])
      if (std::find(predicted[d].begin(), predicted[d].end(), s.class_id) != predicted[d].end())
        histograms.predicted.add(s.score, right(s.class_id));
  }
  return histograms;
}

}  // namespace gpuhpc
