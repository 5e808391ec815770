#include "gpuhpc/train/time_split.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuhpc {
namespace {

double percent(double part, const TrainSummary& s) {
  return 100 * part /
         std::max(1e-9, s.data_seconds + s.compute_seconds + s.sum_seconds + s.update_seconds +
                            s.other_seconds);
}

}  // namespace

std::string describe_times(const TrainSummary& s) {
  return fmt::format(
      "data {:.0f}%, compute {:.0f}%, sums over ranks {:.0f}%, update {:.0f}%, other {:.0f}%",
      percent(s.data_seconds, s), percent(s.compute_seconds, s), percent(s.sum_seconds, s),
      percent(s.update_seconds, s), percent(s.other_seconds, s));
}

std::vector<std::string> time_advice(const TrainSummary& s) {
  std::vector<std::string> sentences;
  if (const double data = percent(s.data_seconds, s); data > 5)
    sentences.push_back(
        fmt::format("{:.0f}% of the training went into waiting for data: put the run folder on a "
                    "faster disk, or start fewer ranks on a host",
                    data));
  if (const double sums = percent(s.sum_seconds, s); sums > 20)
    sentences.push_back(
        fmt::format("{:.0f}% of the training went into sums over ranks that no computing hides: a "
                    "larger --train.batch, --parallel.reduce-type bf16, or fewer ranks",
                    sums));
  return sentences;
}

}  // namespace gpuhpc
