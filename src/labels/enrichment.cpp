#include "gpuhpc/labels/enrichment.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

using Scores = std::vector<std::vector<ScoredTerm>>;

bool better(const ScoredTerm& a, const ScoredTerm& b) {
  return a.score != b.score ? a.score > b.score : a.term < b.term;
}

void keep_best(std::vector<ScoredTerm>& terms, std::int64_t count) {
  std::sort(terms.begin(), terms.end(), better);
  if (std::ssize(terms) > count) terms.resize(static_cast<std::size_t>(count));
}

// Terms of every class of one group of siblings.
class Group {
 public:
  Group(std::span<const ClassId> group, const TermCounts& counts, MatrixView class_vectors,
        MatrixView term_vectors, const EnrichmentOptions& options)
      : group_(group),
        counts_(counts),
        class_vectors_(class_vectors),
        term_vectors_(term_vectors),
        options_(options) {}

  Scores score() const {
    Scores scores(group_.size());
    for (std::int32_t term = 0; term < counts_.terms; ++term) score_term(term, scores);
    return scores;
  }

 private:
  std::size_t at(ClassId c, std::int32_t term) const {
    return static_cast<std::size_t>(c * counts_.terms + term);
  }

  void score_term(std::int32_t term, Scores& scores) const {
    std::vector<double> bm25;  // only where a class has the term
    for (std::size_t g = 0; g < group_.size(); ++g) {
      const ClassId c = group_[g];
      if (counts_.occurrences[at(c, term)] < std::max<std::int64_t>(1, options_.minimum_frequency))
        continue;
      if (bm25.empty()) bm25 = group_bm25(counts_, group_, term, options_);
      const double popular = popularity(counts_.documents[at(c, term)]);
      std::vector<double> others = bm25;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(g));
      const double distinct = distinctiveness(bm25[g], others);
      const double semantic = std::max(0., dot(class_vectors_.row(c), term_vectors_.row(term)));
      const double score = options_.score == EnrichmentScore::paper
                               ? std::cbrt(popular * distinct * semantic)
                               : std::pow(popular, .2) * std::pow(distinct, .8) * semantic;
      if (score > 0) scores[g].push_back({term, static_cast<float>(score)});
    }
  }

  std::span<const ClassId> group_;
  const TermCounts& counts_;
  MatrixView class_vectors_, term_vectors_;
  const EnrichmentOptions& options_;
};

// The authors' code: a term on the lists of several siblings stays with the one that scores it best
// (ties: lower id, that is the first of the group).
void settle_shared(Scores& scores) {
  std::map<std::int32_t, std::pair<std::size_t, float>> owner;
  for (std::size_t g = 0; g < scores.size(); ++g)
    for (const auto& [term, score] : scores[g]) {
      const auto [entry, fresh] = owner.try_emplace(term, g, score);
      if (!fresh && score > entry->second.second) entry->second = {g, score};
    }
  for (std::size_t g = 0; g < scores.size(); ++g)
    std::erase_if(scores[g], [&](const ScoredTerm& t) { return owner.at(t.term).first != g; });
}

// Terms of one class under several parents: union with the best score, or what all lists share with
// the lowest one.
std::vector<ScoredTerm> combine(const Scores& lists, EnrichmentScore score) {
  std::map<std::int32_t, std::pair<std::size_t, float>> found;
  for (const auto& list : lists)
    for (const auto& [term, value] : list) {
      const auto [entry, fresh] = found.try_emplace(term, std::size_t{1}, value);
      if (fresh) continue;
      ++entry->second.first;
      entry->second.second = score == EnrichmentScore::paper
                                 ? std::max(entry->second.second, value)
                                 : std::min(entry->second.second, value);
    }
  std::vector<ScoredTerm> terms;
  for (const auto& [term, entry] : found)
    if (score == EnrichmentScore::paper || entry.first == lists.size())
      terms.push_back({term, entry.second});
  return terms;
}

}  // namespace

TermCounts::TermCounts(std::int64_t class_count, std::int64_t term_count)
    : classes(class_count),
      terms(term_count),
      documents(static_cast<std::size_t>(class_count * term_count)),
      occurrences(static_cast<std::size_t>(class_count * term_count)),
      lengths(static_cast<std::size_t>(class_count)) {}

void count_terms(const Taxonomy& taxonomy, std::span<const std::int32_t> terms,
                 std::span<const ClassId> cores, TermCounts& counts) {
  std::map<std::int32_t, std::int32_t> frequency;
  for (const std::int32_t term : terms) ++frequency[term];
  for (const ClassId c : taxonomy.with_ancestors(cores)) {
    counts.lengths[static_cast<std::size_t>(c)] += std::ssize(terms);
    for (const auto& [term, times] : frequency) {
      const auto i = static_cast<std::size_t>(c * counts.terms + term);
      ++counts.documents[i];
      counts.occurrences[i] += times;
    }
  }
}

EnrichmentOptions code_enrichment() {
  EnrichmentOptions options;
  options.score = EnrichmentScore::code;
  options.minimum_frequency = 5;
  return options;
}

double popularity(std::int64_t documents) { return std::log(1. + static_cast<double>(documents)); }

double distinctiveness(double own, std::span<const double> siblings) {
  // Both sides divided by exp(largest), or a frequent term overflows.
  double largest = std::max(0., own);
  for (const double s : siblings) largest = std::max(largest, s);
  double below = std::exp(-largest);
  for (const double s : siblings) below += std::exp(s - largest);
  return std::exp(own - largest) / below;
}

std::vector<double> group_bm25(const TermCounts& counts, std::span<const ClassId> group,
                               std::int32_t term, const EnrichmentOptions& options) {
  const auto n = static_cast<double>(group.size());
  double with_term = 0, total_length = 0;
  for (const ClassId c : group) {
    total_length += static_cast<double>(counts.lengths[static_cast<std::size_t>(c)]);
    if (counts.occurrences[static_cast<std::size_t>(c * counts.terms + term)] > 0) ++with_term;
  }
  // Never negative: a term that all siblings have weighs little, not against the class.
  const double idf = std::log(1 + (n - with_term + .5) / (with_term + .5));
  std::vector<double> scores(group.size());
  for (std::size_t g = 0; g < group.size(); ++g) {
    const ClassId c = group[g];
    const double tf = counts.occurrences[static_cast<std::size_t>(c * counts.terms + term)];
    if (tf == 0) continue;
    const double length =
        static_cast<double>(counts.lengths[static_cast<std::size_t>(c)]) * n / total_length;
    scores[g] =
        idf * tf * (options.k1 + 1) / (tf + options.k1 * (1 - options.b + options.b * length));
  }
  return scores;
}

std::vector<std::vector<ScoredTerm>> enrich_classes(const Taxonomy& taxonomy,
                                                    const TermCounts& counts,
                                                    MatrixView class_vectors,
                                                    MatrixView term_vectors,
                                                    const EnrichmentOptions& options) {
  std::vector<Scores> lists(static_cast<std::size_t>(taxonomy.size()));  // one list a parent
  const auto take_group = [&](std::span<const ClassId> group) {
    Scores scores = Group(group, counts, class_vectors, term_vectors, options).score();
    if (options.score == EnrichmentScore::code) settle_shared(scores);
    for (std::size_t g = 0; g < group.size(); ++g) {
      // The union is over the best of every parent; an intersection is cut after it is taken.
      if (options.score == EnrichmentScore::paper) keep_best(scores[g], options.terms);
      lists[static_cast<std::size_t>(group[g])].push_back(std::move(scores[g]));
    }
  };
  take_group(taxonomy.roots());
  for (ClassId p = 0; p < taxonomy.size(); ++p)
    if (!taxonomy.is_leaf(p)) take_group(taxonomy.children(p));
  std::vector<std::vector<ScoredTerm>> terms(lists.size());
  for (std::size_t c = 0; c < lists.size(); ++c) {
    terms[c] = combine(lists[c], options.score);
    // Several parents: up to `terms` for each of them under the union.
    const std::int64_t parents = options.score == EnrichmentScore::paper ? std::ssize(lists[c]) : 1;
    keep_best(terms[c], options.terms * parents);
  }
  return terms;
}

}  // namespace gpuhpc
