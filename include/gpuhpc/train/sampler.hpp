#pragma once
// The global batches of a training, cut as they are asked for: an epoch is one permutation, and
// nothing else grows with items or steps.
#include <cstdint>
#include <optional>
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

class Sampler {
 public:
  // Batches of `batch` items or, where options.batch_tokens is above 0, of as many as have at most
  // these tokens together (a longer item stands alone). An epoch ends with its last item; its last
  // batch may be short. With several corpora (course.corpora) each batch comes from one of them,
  // the corpora take turns by weight, and one that is used up before the epoch is over starts anew.
  Sampler(const Task& task, const TrainOptions& options, const Course& course, std::int64_t batch);

  std::vector<std::int64_t> next();              // the next epoch begins when one is over
  std::int64_t epoch() const { return epoch_; }  // from 0, of the batch drawn last
  std::int64_t batch() const { return batch_; }  // batches of it drawn so far
  bool epoch_over() const { return drawn_ == items_; }
  // As if `batch` batches of `epoch` had been drawn: a pass over what they hold.
  void seek(std::int64_t epoch, std::int64_t batch);

  std::int64_t items() const { return items_; }            // that are learnt from
  std::int64_t total_steps() const { return total_; }      // course.max_steps, or all epochs
  double mean_batch() const { return mean_batch_; }        // items
  std::int64_t largest_batch() const { return largest_; }  // items, in the first epoch
  const std::vector<std::int64_t>& validation() const { return validation_; }

 private:
  struct Stream {
    Range places;  // of learnt_
    double weight = 1;
    std::vector<std::int64_t> order = {};  // of the present pass
    std::int64_t next = 0, pass = 0, batches = 0;
    std::vector<std::int64_t> put_off = {};  // items whose key a batch had already
  };
  void split(const Course& course, double share);
  void begin_epoch(std::int64_t epoch);
  void begin_pass(std::size_t stream);
  std::size_t choose() const;
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
  std::int64_t epoch_ = 0, batch_ = 0, drawn_ = 0;
  std::int64_t total_ = 0, largest_ = 0;
  double mean_batch_ = 0;
};

}  // namespace gpuhpc
