#include "gpuhpc/eval/retrieval.hpp"

#include <algorithm>
#include <cmath>

namespace gpuhpc {
namespace {

double gain(std::int64_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

}  // namespace

Figures retrieval_figures(std::span<const std::vector<std::int32_t>> found,
                          std::span<const std::vector<std::int32_t>> relevant) {
  double mrr = 0, ndcg = 0, recall_1 = 0, recall_10 = 0, map = 0;
  for (std::size_t q = 0; q < found.size(); ++q) {
    const auto wanted = static_cast<double>(relevant[q].size());
    double hits = 0, hits_10 = 0, discounted = 0, precision = 0, ideal = 0, first = 0;
    for (std::int64_t place = 0; place < std::min<std::int64_t>(100, std::ssize(found[q]));
         ++place) {
      const std::int32_t document = found[q][static_cast<std::size_t>(place)];
      if (std::ranges::find(relevant[q], document) == relevant[q].end()) continue;
      ++hits;
      precision += hits / static_cast<double>(place + 1);
      if (place >= 10) continue;
      ++hits_10;
      discounted += gain(place);
      if (first == 0) first = 1 / static_cast<double>(place + 1);
      if (place == 0) recall_1 += 1 / wanted;
    }
    for (std::int64_t place = 0; place < std::min<std::int64_t>(10, std::ssize(relevant[q]));
         ++place)
      ideal += gain(place);
    mrr += first;
    ndcg += discounted / ideal;
    recall_10 += hits_10 / wanted;
    map += precision / std::min(100., wanted);
  }
  const auto queries = static_cast<double>(found.size());
  return {{"mrr_at_10", mrr / queries},
          {"ndcg_at_10", ndcg / queries},
          {"recall_at_1", recall_1 / queries},
          {"recall_at_10", recall_10 / queries},
          {"map_at_100", map / queries}};
}

}  // namespace gpuhpc
