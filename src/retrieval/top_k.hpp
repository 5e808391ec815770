#pragma once
// The k best (weight, index) pairs seen so far; ties: lower index first. Private to the room.
#include <cstdint>
#include <span>

namespace gpuhpc {

// Works on rows of a Neighbours: `indices` starts as -1, `weights` as 0, so only positive weights
// enter.
class TopK {
 public:
  TopK(std::span<std::int32_t> indices, std::span<float> weights)
      : indices_(indices), weights_(weights) {}

  float worst() const { return weights_.empty() ? 0 : weights_.back(); }

  void offer(std::int32_t index, float weight) {
    if (weights_.empty() || !(weight > 0)) return;
    std::size_t at = weights_.size();
    while (at > 0 && before(index, weight, at - 1)) --at;
    if (at == weights_.size()) return;
    for (std::size_t i = weights_.size() - 1; i > at; --i) {
      indices_[i] = indices_[i - 1];
      weights_[i] = weights_[i - 1];
    }
    indices_[at] = index;
    weights_[at] = weight;
  }

  // Offers weights[j] for index name(j); groups of weights that cannot enter are passed over
  // quickly.
  template <typename Name>
  void offer_all(std::span<const float> weights, const Name& name) {
    constexpr std::size_t group = 32;
    for (std::size_t first = 0; first < weights.size(); first += group) {
      const std::size_t last = first + group < weights.size() ? first + group : weights.size();
      const float least = worst();
      bool any = false;
      for (std::size_t j = first; j < last; ++j) any |= weights[j] >= least;
      if (!any) continue;
      for (std::size_t j = first; j < last; ++j) {
        if (weights[j] >= worst()) offer(name(j), weights[j]);
      }
    }
  }

 private:
  bool before(std::int32_t index, float weight, std::size_t at) const {
    return indices_[at] < 0 || weight > weights_[at] ||
           (weight == weights_[at] && index < indices_[at]);
  }
  std::span<std::int32_t> indices_;
  std::span<float> weights_;
};

}  // namespace gpuhpc
