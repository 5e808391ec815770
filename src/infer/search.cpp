#include "search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

}  // namespace

TextSearch::TextSearch(const GenerateOptions& options, const T5Config& config, std::int64_t number)
    : options_(options),
      words_(config.vocabulary_size),
      start_(config.start),
      eos_(config.eos),
      random_(static_cast<std::uint64_t>(options.seed), static_cast<std::uint64_t>(number)) {}

void TextSearch::apply_rules(std::span<float> scores, const Text& text) const {
  std::vector<std::int32_t> history{start_};
  history.insert(history.end(), text.tokens.begin(), text.tokens.end());
  const auto at = [&](std::int32_t id) -> float& { return scores[static_cast<std::size_t>(id)]; };
  if (options_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const std::int32_t id : std::set(history.begin(), history.end()))
      at(id) = at(id) < 0 ? at(id) * penalty : at(id) / penalty;
  }
  const auto n = static_cast<std::ptrdiff_t>(options_.no_repeat_ngram);
  if (n > 0 && std::ssize(history) + 1 >= n) {
    const auto present = history.end() - (n - 1);  // what a new token would complete
    for (auto first = history.begin(); first + n <= history.end(); ++first)
      if (std::equal(present, history.end(), first)) at(first[n - 1]) = never;
  }
  if (std::ssize(text.tokens) < options_.min_length) at(eos_) = never;
}

void TextSearch::advance(const kernels::WordKernels& kernels, float* scores, std::int64_t stride) {
  if (options_.beams == 1)
    advance_one(kernels, {scores, static_cast<std::size_t>(words_)});
  else
    advance_beams(kernels, scores, stride);
}

void TextSearch::advance_one(const kernels::WordKernels& kernels, std::span<float> scores) {
  Text& text = running_.front();
  apply_rules(scores, text);
  std::int64_t id = 0;
  if (options_.sample)
    id = draw(scores);
  else
    for (std::int64_t next = 0; next < words_;
         next = kernels.next_above(scores.data(), next, words_, scores.data()[next]))
      id = next;
  text.tokens.push_back(static_cast<std::int32_t>(id));
  over_ = id == eos_ || length() == options_.max_length;
  if (over_) finished_.push_back(text);
}

// Temperature, then the most probable ones by number, then by their share.
std::int32_t TextSearch::draw(std::span<const float> scores) {
  std::vector<std::int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](std::int32_t id) { return scores[static_cast<std::size_t>(id)]; };
  // Words of one score stand by their number, so that every machine draws alike.
  const auto better = [&](std::int32_t a, std::int32_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  };
  if (const auto most = static_cast<std::size_t>(options_.top_k); most > 0 && most < ids.size()) {
    std::ranges::partial_sort(ids, ids.begin() + options_.top_k, better);
    ids.resize(most);
  }
  const float best = std::ranges::max(scores);
  const auto share = [&](std::int32_t id) {
    return std::exp((static_cast<double>(score(id)) - best) / options_.temperature);
  };
  double sum = 0;
  for (const std::int32_t id : ids) sum += share(id);
  if (options_.top_p < 1) {  // the best ones go behind the others, until they are enough
    const auto worse = [&](std::int32_t a, std::int32_t b) { return better(b, a); };
    const double wanted = options_.top_p * sum;
    std::ranges::make_heap(ids, worse);
    auto kept = ids.end();
    for (sum = 0; kept != ids.begin() && (kept == ids.end() || sum < wanted); sum += share(*kept))
      std::pop_heap(ids.begin(), kept--, worse);
    ids.erase(ids.begin(), kept);
  }
  double place = random_.uniform() * sum;
  for (const std::int32_t id : ids)
    if ((place -= share(id)) < 0) return id;
  return ids.back();
}

void TextSearch::advance_beams(const kernels::WordKernels& kernels, float* scores,
                               std::int64_t stride) {
  const auto beams = static_cast<std::size_t>(options_.beams);
  struct Place {
    float score;
    std::int64_t row, id;
  };
  const auto better = [](const Place& a, const Place& b) {
    return a.score != b.score ? a.score > b.score : std::pair(a.row, a.id) < std::pair(b.row, b.id);
  };
  // The best continuations: twice as many as there are beams, so that enough of them go on. A heap,
  // its worst in front.
  std::vector<Place> places;
  for (std::int64_t row = 0; row < std::ssize(running_); ++row) {
    const Text& text = running_[static_cast<std::size_t>(row)];
    const std::span<float> own(scores + row * stride, static_cast<std::size_t>(words_));
    const float shift = kernels.log_sum_exp(own.data(), words_);
    for (float& score : own) score -= shift;
    apply_rules(own, text);
    for (float& score : own) score += text.score;
    for (std::int64_t id = 0; id < words_; ++id) {
      if (places.size() == 2 * beams) {
        id = kernels.next_above(own.data(), id, words_, places.front().score);
        if (id == words_) break;
        std::ranges::pop_heap(places, better);
        places.pop_back();
      }
      places.push_back({own.data()[id], row, id});
      std::ranges::push_heap(places, better);
    }
  }
  std::ranges::sort(places, better);
  const std::int64_t made = length() + 1;
  const auto by_length =
      static_cast<float>(std::pow(static_cast<double>(made), options_.length_penalty));
  const bool last = made == options_.max_length;
  std::vector<Text> next, ended;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Place& place = places[rank];
    Text text = running_[static_cast<std::size_t>(place.row)];
    text.tokens.push_back(static_cast<std::int32_t>(place.id));
    text.score = place.score;
    text.parent = place.row;
    if (text.tokens.back() != eos_ && !last) {
      if (next.size() < beams) next.push_back(std::move(text));
    } else if (rank < beams) {
      text.score /= by_length;
      ended.push_back(std::move(text));
    }
  }
  finished_.insert(finished_.end(), ended.begin(), ended.end());
  std::ranges::stable_sort(finished_, std::greater<>(), &Text::score);
  finished_.resize(std::min(finished_.size(), beams));
  running_ = std::move(next);
  const bool full = finished_.size() == beams;
  if (!last && full) {
    const bool far = options_.early_stopping == "never" && options_.length_penalty > 0;
    const auto reached = static_cast<double>(far ? options_.max_length : made);
    const float best =
        running_.front().score / static_cast<float>(std::pow(reached, options_.length_penalty));
    can_improve_ = best > finished_.back().score;
  }
  over_ = last || !can_improve_ || (full && options_.early_stopping == "true");
}

std::vector<std::int32_t> TextSearch::best() const {
  std::vector<std::int32_t> tokens = finished_.front().tokens;
  if (!tokens.empty() && tokens.back() == eos_) tokens.pop_back();
  return tokens;
}

}  // namespace gpuhpc
