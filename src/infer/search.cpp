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

void to_log_probabilities(std::span<float> scores) {
  const float most = std::ranges::max(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - most);
  const auto shift = static_cast<float>(most + std::log(sum));
  for (float& score : scores) score -= shift;
}

}  // namespace

TextSearch::TextSearch(const GenerateOptions& options, const T5Config& config, std::int64_t number)
    : options_(options),
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

void TextSearch::advance(std::span<float> scores, std::int64_t rows) {
  const auto words = std::ssize(scores) / rows;
  if (rows != std::ssize(running_))
    throw internal_error("{} rows of scores for {} texts", rows, running_.size());
  if (options_.beams == 1)
    advance_one(scores);
  else
    advance_beams(scores, words);
}

void TextSearch::advance_one(std::span<float> scores) {
  Text& text = running_.front();
  apply_rules(scores, text);
  const auto id =
      options_.sample
          ? draw(scores)
          : static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
  text.tokens.push_back(id);
  over_ = id == eos_ || length() == options_.max_length;
  if (over_) finished_.push_back(text);
}

// Temperature, then the most probable ones by number, then by their share.
std::int32_t TextSearch::draw(std::span<const float> scores) {
  std::vector<std::int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](std::int32_t id) { return scores[static_cast<std::size_t>(id)]; };
  const auto kept = options_.top_k > 0
                        ? std::min(ids.size(), static_cast<std::size_t>(options_.top_k))
                        : ids.size();
  // Words of one score stand by their number, so that every machine draws alike.
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(kept),
                            [&](std::int32_t a, std::int32_t b) {
                              return score(a) != score(b) ? score(a) > score(b) : a < b;
                            });
  ids.resize(kept);
  std::vector<double> shares;
  for (const std::int32_t id : ids)
    shares.push_back(
        std::exp((static_cast<double>(score(id)) - score(ids[0])) / options_.temperature));
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double sum = 0;
  std::size_t count = 0;
  while (count < shares.size() && (count == 0 || sum < options_.top_p * all))
    sum += shares[count++];
  double place = random_.uniform() * sum;
  for (std::size_t i = 0; i + 1 < count; ++i)
    if ((place -= shares[i]) < 0) return ids[i];
  return ids[count - 1];
}

void TextSearch::advance_beams(std::span<float> scores, std::int64_t words) {
  const auto beams = static_cast<std::size_t>(options_.beams);
  for (std::size_t row = 0; row < running_.size(); ++row) {
    const auto own =
        scores.subspan(row * static_cast<std::size_t>(words), static_cast<std::size_t>(words));
    to_log_probabilities(own);
    apply_rules(own, running_[row]);
    for (float& score : own) score += running_[row].score;
  }
  // The best continuations: twice as many as there are beams, so that enough of them go on.
  const auto better = [&](std::int64_t a, std::int64_t b) {
    const float of_a = scores[static_cast<std::size_t>(a)],
                of_b = scores[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  std::vector<std::int64_t> places;  // a heap: its worst in front
  for (std::int64_t place = 0; place < std::ssize(scores); ++place) {
    if (places.size() == 2 * beams) {
      if (!better(place, places.front())) continue;
      std::ranges::pop_heap(places, better);
      places.pop_back();
    }
    places.push_back(place);
    std::ranges::push_heap(places, better);
  }
  std::ranges::sort(places, better);
  const std::int64_t made = length() + 1;
  const auto by_length =
      static_cast<float>(std::pow(static_cast<double>(made), options_.length_penalty));
  const bool last = made == options_.max_length;
  std::vector<Text> next, ended;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::int64_t place = places[rank], row = place / words;
    Text text = running_[static_cast<std::size_t>(row)];
    text.tokens.push_back(static_cast<std::int32_t>(place % words));
    text.score = scores[static_cast<std::size_t>(place)];
    text.parent = row;
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
