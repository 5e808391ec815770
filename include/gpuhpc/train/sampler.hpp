#pragma once
// The global batches of a training, cut as they are asked for: an epoch is one permutation, and
// nothing else grows with items or steps.
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/train/options.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

// The items that are learnt from and the `share` of all (rounded) that is only looked at: a draw by
// `seed` alone, both in ascending order.
struct HeldOut {
  std::vector<std::int64_t> learnt, validation;
};
HeldOut hold_out(std::int64_t items, double share, std::uint64_t seed);
// configuration_error where a share leaves nothing to learn from, or nothing to tell the best state
// by (--train.restore best, --train.patience).
void require_held_out(const TrainOptions& train, std::size_t learnt, std::size_t validation);

class Sampler {
 public:
  // Batches of `batch` items or, where options.batch_tokens is above 0, of as many as have at most
  // these tokens together (a longer item stands alone). An epoch ends with its last item; its last
  // batch may be short. With several corpora (course.corpora) each batch comes from one of them.
  Sampler(const Task& task, const TrainOptions& options, const Course& course, std::int64_t batch);

  std::vector<std::int64_t> next();              // the next epoch begins when one is over
  std::int64_t epoch() const { return epoch_; }  // from 0, of the batch drawn last
  std::int64_t batch() const { return batch_; }  // batches of it drawn so far
  bool epoch_over() const;
  std::size_t corpus() const { return corpus_; }  // of course.corpora, of the batch drawn last
  // As if `batch` batches of `epoch` had been drawn: a pass over what they hold.
  void seek(std::int64_t epoch, std::int64_t batch);

  std::int64_t items() const { return items_; }        // that are learnt from
  std::int64_t total_steps() const { return total_; }  // course.max_steps, or all epochs
  // Items of the largest batch; where tokens cut them, of one on average.
  double full_batch() const { return full_batch_; }
  std::int64_t largest_batch() const { return largest_; }  // items, in the first epoch
  const std::vector<std::int64_t>& validation() const { return validation_; }

 private:
  struct Stream {
    Range places;  // of learnt_
    std::size_t corpus = 0;
    double weight = 1;
    std::int64_t wanted = 0;               // items of an epoch
    std::vector<std::int64_t> order = {};  // of the present pass
    std::int64_t next = 0, pass = 0, batches = 0, drawn = 0;
    std::vector<std::int64_t> put_off = {};  // items of whose keys a batch had one already
    bool pass_over() const { return next == std::ssize(order) && put_off.empty(); }
  };
  void split(const Course& course, double share);
  void begin_epoch(std::int64_t epoch);
  void begin_pass(std::size_t stream);
  std::size_t choose() const;
  bool is_remnant(const Stream& stream) const;
  std::vector<std::int64_t> cut(Stream& stream);
  std::int64_t item(std::int64_t place) const {
    return learnt_ ? (*learnt_)[static_cast<std::size_t>(place)] : place;
  }

  const Task& task_;
  std::uint64_t seed_;
  std::int64_t items_, batch_size_, batch_tokens_;
  bool no_duplicates_;
  std::optional<std::vector<std::int64_t>> learnt_;  // none: all items
  std::vector<std::int64_t> validation_;
  std::vector<Stream> streams_;
  Mixing mixing_;
  std::size_t corpus_ = 0;
  std::int64_t epoch_ = 0, batch_ = 0;
  std::int64_t total_ = 0, largest_ = 0;
  double full_batch_ = 0;
};

// The largest size of 1 .. limit that `fits`, within an eighth: doubled until one does not fit,
// then halved in between. 0: not even 1. `foreseen` (0: nothing was) is tried first, then an eighth
// more or less: where it was right these two trials are all.
std::int64_t largest_fitting(std::int64_t limit, const std::function<bool(std::int64_t)>& fits,
                             std::int64_t foreseen = 0);
// Of 1, 2, 4 .. and `limit` the one that takes the fewest seconds per item; of those within a
// twentieth of it the smallest. From `foreseen` on (0: nothing was) only neighbours are tried, for
// as long as they are faster.
std::int64_t fastest_size(std::int64_t limit, const std::function<double(std::int64_t)>& seconds,
                          std::int64_t foreseen = 0);

// How a global batch of `documents` is computed: what the run's one line says.
struct BatchShape {
  std::int64_t ranks = 1, micro_batch = 1,
               accumulation = 1;  // documents at once, micro-batches per rank; both at most
};
BatchShape batch_shape(std::int64_t documents, std::int64_t micro_batch,
                       int ranks);  // micro_batch 0: one micro-batch per rank

// The micro-batches of one global batch, at most `micro_batch` items each, of about equal cost: cut
// from the batch alone, so that each gives the same gradient whoever computes it. Only when they
// would be fewer than `ranks` (or when `micro_batch` is 0) are there as many as ranks.
std::int64_t piece_count(std::int64_t items, std::int64_t micro_batch, int ranks);
std::vector<std::vector<std::int64_t>> cut_micro_batches(const Task& task,
                                                         std::span<const std::int64_t> batch,
                                                         std::int64_t micro_batch, int ranks);

// The seed of dropout in one micro-batch: of the run's seed, the global step and the micro-batch's
// number in the global batch. It does not know who computes it, and nothing of a generator has to
// be saved.
std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch);

// Is `micro_batch` the last of its quarter of the global batch's `count` micro-batches? Quarters
// are the leaves of the reproducible sum's tree (gradient_sync.hpp): within one, gradients are
// added up in place; so long sums cost no more copies than short ones.
bool ends_quarter(std::int64_t micro_batch, std::int64_t count);
// The micro-batches that `rank` computes: with 1, 2 or 4 ranks whole quarters.
Range micro_batches_of_rank(std::int64_t count, int rank, int ranks);

}  // namespace gpuhpc
