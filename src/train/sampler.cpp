#include "gpuhpc/train/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"

namespace gpuhpc {
namespace {

// A batch looks at no more items than this beyond those that it takes, so that a step's time does
// not depend on how often one key comes.
constexpr std::int64_t most_put_off = 1024;

void shuffle(std::vector<std::int64_t>& order, std::int64_t first, std::int64_t items,
             std::uint64_t seed, std::int64_t epoch) {
  order.resize(static_cast<std::size_t>(items));
  std::iota(order.begin(), order.end(), first);
  RandomStream(seed, /*stream=*/static_cast<std::uint64_t>(epoch)).shuffle(order);
}

}  // namespace

HeldOut hold_out(std::int64_t items, double share, std::uint64_t seed) {
  // A seed of its own: the shuffles of the epochs do not follow from what is held out.
  std::vector<std::int64_t> order;
  shuffle(order, 0, items, seed ^ 0x94d049bb133111ebULL, 0);
  const auto first = order.begin() + std::llround(share * static_cast<double>(items));
  std::sort(order.begin(), first);
  std::sort(first, order.end());
  return {{first, order.end()}, {order.begin(), first}};
}

Sampler::Sampler(const Task& task, const TrainOptions& options, const Course& course,
                 std::int64_t batch)
    : task_(task),
      seed_(static_cast<std::uint64_t>(options.seed)),
      items_(task.size()),
      batch_size_(batch),
      batch_tokens_(options.batch_tokens),
      no_duplicates_(course.no_duplicates),
      mixing_(course.mixing) {
  split(course, course.validation);
  if (items_ == 0) throw input_error("there is nothing to train on: no document has a target");
  begin_epoch(0);
  const bool by_items = batch_tokens_ == 0 && !no_duplicates_ && course.corpora.empty();
  const auto batches_of = [&](Sampler& sampler, std::int64_t epoch) {
    if (by_items) return block_count(items_, batch_size_);
    sampler.begin_epoch(epoch);
    while (!sampler.epoch_over()) {
      const std::int64_t size = std::ssize(sampler.next());
      if (epoch == 0) largest_ = std::max(largest_, size);
    }
    return sampler.batch_;
  };
  Sampler count = *this;
  const std::int64_t first = batches_of(count, 0);
  if (by_items) largest_ = std::min(items_, batch_size_);
  std::int64_t drawn = 0;
  for (const Stream& stream : count.streams_) drawn += stream.drawn;
  full_batch_ = batch_tokens_ > 0 ? static_cast<double>(drawn) / static_cast<double>(first)
                                  : static_cast<double>(largest_);
  total_ = course.max_steps;
  if (by_items && course.max_steps == 0) {
    total_ = first * course.epochs;
    return;
  }
  for (std::int64_t epoch = 0; course.max_steps == 0 && epoch < course.epochs; ++epoch)
    total_ += epoch == 0 ? first : batches_of(count, epoch);
}

void require_held_out(const TrainOptions& train, std::size_t learnt, std::size_t validation) {
  const bool needed = train.restore == "best" || train.patience > 0;
  if (train.validation > 0 && (learnt == 0 || (validation == 0 && needed)))
    throw configuration_error(
        "--train.validation {} leaves {} to learn from and {} to validate on; give another share",
        train.validation, learnt, validation);
}

// Validation items leave what is learnt from; each corpus becomes a stream of what is left of it.
void Sampler::split(const Course& course, double share) {
  if (!course.validation_items.empty()) {
    validation_ = course.validation_items;
    std::ranges::sort(validation_);
    std::vector<std::int64_t> all(static_cast<std::size_t>(items_));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    learnt_.emplace();
    std::ranges::set_difference(all, validation_, std::back_inserter(*learnt_));
  } else if (share > 0) {
    HeldOut parts = hold_out(items_, share, seed_);
    if (items_ > 0 && (parts.learnt.empty() || parts.validation.empty()))
      throw Error(ExitCode::configuration,
                  fmt::format("--train.validation {} of {} documents leaves {} to learn from and "
                              "{} to validate on; give another share, or 0",
                              share, items_, parts.learnt.size(), parts.validation.size()),
                  true);
    learnt_ = std::move(parts.learnt), validation_ = std::move(parts.validation);
  }
  if (learnt_) items_ = std::ssize(*learnt_);
  const auto place = [&](std::int64_t number) {
    return learnt_ ? std::ranges::lower_bound(*learnt_, number) - learnt_->begin() : number;
  };
  for (std::size_t c = 0; c < course.corpora.size(); ++c) {
    const auto& [items, weight, name] = course.corpora[c];
    if (const Range places{place(items.first), place(items.last)}; places.size() > 0)
      streams_.push_back({places, c, weight});
  }
  if (course.corpora.empty()) streams_.push_back({{0, items_}});
  items_ = 0;
  for (Stream& stream : streams_) {
    items_ += stream.places.size();
    stream.wanted =
        mixing_ == Mixing::round_robin
            ? std::numeric_limits<std::int64_t>::max()
            : std::max<std::int64_t>(
                  1, std::llround(stream.weight * static_cast<double>(stream.places.size())));
  }
}

void Sampler::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch, batch_ = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].pass = streams_[i].batches = streams_[i].drawn = 0;
    streams_[i].put_off.clear();
    begin_pass(i);
  }
}

// The first corpus's first pass is shuffled by (seed, epoch) alone.
void Sampler::begin_pass(std::size_t index) {
  Stream& stream = streams_[index];
  const std::uint64_t seed = seed_ + 0xbf58476d1ce4e5b9ULL * index +
                             0x94d049bb133111ebULL * static_cast<std::uint64_t>(stream.pass);
  shuffle(stream.order, stream.places.first, stream.places.size(), seed, epoch_);
  stream.next = 0;
}

bool Sampler::epoch_over() const {
  if (mixing_ == Mixing::proportional)
    return std::ranges::all_of(streams_, [](const Stream& s) { return s.drawn == s.wanted; });
  const auto rounds = [](const Stream& s) { return static_cast<double>(s.batches) / s.weight; };
  const double first = rounds(streams_.front());
  return std::ranges::all_of(streams_, [&](const Stream& s) { return rounds(s) == first; }) &&
         std::ranges::any_of(streams_, [](const Stream& s) { return s.pass > 0 || s.pass_over(); });
}

// The corpus that is furthest behind: in proportion, the one whose next batch has its middle first
// when the epoch is a line on which those of each corpus are spread.
std::size_t Sampler::choose() const {
  const auto turn = [&](const Stream& stream) {
    if (mixing_ == Mixing::round_robin)
      return static_cast<double>(stream.batches + 1) / stream.weight;
    const std::int64_t left = std::min(batch_size_, stream.wanted - stream.drawn);
    return left == 0 ? 2
                     : (static_cast<double>(stream.drawn) + .5 * static_cast<double>(left)) /
                           static_cast<double>(stream.wanted);
  };
  return static_cast<std::size_t>(std::ranges::min_element(streams_, {}, turn) - streams_.begin());
}

std::vector<std::int64_t> Sampler::next() {
  if (epoch_over()) begin_epoch(epoch_ + 1);
  const std::size_t chosen = choose();
  Stream& stream = streams_[chosen];
  if (stream.pass_over()) ++stream.pass, begin_pass(chosen);
  corpus_ = stream.corpus;
  ++stream.batches, ++batch_;
  return cut(stream);
}

// Of a pass only this is left, less than half a batch.
bool Sampler::is_remnant(const Stream& stream) const {
  if (stream.next < std::ssize(stream.order)) return false;
  if (batch_tokens_ == 0) return 2 * std::ssize(stream.put_off) < batch_size_;
  std::int64_t tokens = 0;
  for (const std::int64_t item : stream.put_off) tokens += task_.cost(item);
  return 2 * tokens < batch_tokens_;
}

std::vector<std::int64_t> Sampler::cut(Stream& stream) {
  // A text that stands seven times in the last rows would make seven updates of a few rows each, at
  // the rate of a whole batch.
  const bool apart = no_duplicates_ && !is_remnant(stream);
  std::vector<std::int64_t> batch, put_off;
  std::unordered_set<std::int64_t> keys;
  std::int64_t tokens = 0;
  const auto full = [&](std::int64_t item) {
    if (std::ssize(batch) == stream.wanted - stream.drawn) return true;
    if (batch_tokens_ == 0) return std::ssize(batch) == batch_size_;
    return !batch.empty() && tokens + task_.cost(item) > batch_tokens_;
  };
  const auto take = [&](std::int64_t item) {
    if (apart) {
      const std::vector<std::int64_t> own = task_.keys(item);
      if (std::ranges::any_of(own, [&](std::int64_t key) { return keys.contains(key); }))
        return put_off.push_back(item);
      keys.insert(own.begin(), own.end());
    }
    batch.push_back(item);
    if (batch_tokens_ > 0) tokens += task_.cost(item);
  };
  std::size_t again = 0;
  while (again < stream.put_off.size() && !full(stream.put_off[again]))
    take(stream.put_off[again++]);
  const bool waiting = again < stream.put_off.size();  // they come before what is new
  put_off.insert(put_off.end(), stream.put_off.begin() + static_cast<std::ptrdiff_t>(again),
                 stream.put_off.end());
  while (!waiting && stream.next < std::ssize(stream.order) && std::ssize(put_off) < most_put_off) {
    const std::int64_t number = item(stream.order[static_cast<std::size_t>(stream.next)]);
    if (full(number)) break;
    take(number);
    ++stream.next;
  }
  stream.put_off = std::move(put_off);
  stream.drawn += std::ssize(batch);
  return batch;
}

void Sampler::seek(std::int64_t epoch, std::int64_t batch) {
  begin_epoch(epoch);
  while (batch_ < batch) next();
}

std::int64_t largest_fitting(std::int64_t limit, const std::function<bool(std::int64_t)>& fits,
                             std::int64_t foreseen) {
  std::int64_t good = 0, bad = limit + 1;
  const auto trial = [&](std::int64_t size) { (fits(size) ? good : bad) = size; };
  if (foreseen > 0 && limit > 0) {
    trial(std::min(foreseen, limit));
    if (good == 0) {
      for (std::int64_t size = bad - std::max<std::int64_t>(1, bad / 9); good == 0 && size > 0;
           size = bad / 2)
        trial(size);
      if (good == 0) return 0;
    } else if (good < limit) {
      trial(std::min(limit, good + std::max<std::int64_t>(1, good / 8)));
    }
  }
  for (std::int64_t size = std::max<std::int64_t>(1, 2 * good); good < limit && bad > limit;
       size *= 2)
    trial(std::min(limit, size));
  while (bad - good > std::max<std::int64_t>(1, good / 8)) trial((good + bad) / 2);
  return good;
}

std::int64_t fastest_size(std::int64_t limit, const std::function<double(std::int64_t)>& seconds,
                          std::int64_t foreseen) {
  constexpr double as_fast = 1.05;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < 2 * limit; size *= 2) sizes.push_back(std::min(size, limit));
  std::vector<std::optional<double>> tried(sizes.size());  // seconds per item
  const auto each = [&](std::size_t i) {
    if (!tried[i]) tried[i] = seconds(sizes[i]) / static_cast<double>(sizes[i]);
    return *tried[i];
  };
  std::size_t best = 0;
  const auto see = [&](std::size_t i) {
    const bool faster = each(i) < each(best);
    if (faster) best = i;
    return faster;
  };
  if (foreseen <= 0) {
    for (std::size_t i = 0; i < sizes.size(); ++i) see(i);
  } else {
    while (sizes[best] < std::min(foreseen, limit)) ++best;
    while (best + 1 < sizes.size() && see(best + 1)) continue;
    while (best > 0 && see(best - 1)) continue;
  }
  std::size_t near = best;
  while (near > 0 && each(near - 1) <= as_fast * each(best)) --near;
  return sizes[near];
}

std::int64_t piece_count(std::int64_t items, std::int64_t micro_batch, int ranks) {
  const std::int64_t wanted = micro_batch > 0 ? block_count(items, micro_batch) : 0;
  return std::max(wanted, std::min<std::int64_t>(ranks, items));
}

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch) {
  // A stream of its own: the shuffle of epoch e uses stream e.
  RandomStream stream(seed ^ 0x9e3779b97f4a7c15ULL, (static_cast<std::uint64_t>(step) << 24) +
                                                        static_cast<std::uint64_t>(micro_batch));
  return stream.next();
}

std::vector<std::vector<std::int64_t>> cut_micro_batches(const Task& task,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> by_cost;  // (cost, item)
  for (const std::int64_t item : batch) by_cost.emplace_back(task.cost(item), item);
  std::ranges::sort(by_cost, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const std::int64_t items = std::ssize(batch), count = piece_count(items, micro_batch, ranks);
  std::vector<std::vector<std::int64_t>> parts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < items; ++i) {  // there and back: 0 1 2 2 1 0 0 1 2 ..
    const std::int64_t place = i % (2 * count);
    parts[static_cast<std::size_t>(place < count ? place : 2 * count - 1 - place)].push_back(
        by_cost[static_cast<std::size_t>(i)].second);
  }
  return parts;
}

BatchShape batch_shape(std::int64_t documents, std::int64_t micro_batch, int ranks) {
  const std::int64_t parts = std::max(std::int64_t{1}, piece_count(documents, micro_batch, ranks));
  return {ranks, block_count(documents, parts), block_count(parts, ranks)};
}

bool ends_quarter(std::int64_t micro_batch, std::int64_t count) {
  return micro_batch * 4 / count != (micro_batch + 1) * 4 / count;
}

Range micro_batches_of_rank(std::int64_t count, int rank, int ranks) {
  return {block_count(count * rank, ranks), block_count(count * (rank + 1), ranks)};
}

}  // namespace gpuhpc
