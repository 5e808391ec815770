#include "gpuhpc/train/slow_rank.hpp"

#include <algorithm>

namespace gpuhpc {

std::optional<SlowRank> slow_rank(std::span<const double> seconds_a_token) {
  if (seconds_a_token.size() < 2) return std::nullopt;
  std::vector<double> others(seconds_a_token.begin(), seconds_a_token.end());
  const auto slowest = std::ranges::max_element(others);
  const auto rank = static_cast<std::size_t>(slowest - others.begin());
  others.erase(slowest);
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::ranges::nth_element(others, middle);
  const double times = seconds_a_token[rank] / *middle;
  return times >= 1.2 ? std::optional(SlowRank{rank, times}) : std::nullopt;
}

SlowRankWatch::SlowRankWatch(Communicator& comm, Log log, std::int64_t window)
    : comm_(comm),
      log_(std::move(log)),
      window_(window),
      hosts_(comm.all_gather_strings(comm.host())) {}

void SlowRankWatch::after_step(const StepReport& report) {
  if (comm_.size() == 1) return;
  seconds_ += report.data_seconds + report.compute_seconds;
  tokens_ += report.own_tokens;
  if (++steps_ < window_) return;
  const double mine = tokens_ > 0 ? seconds_ / tokens_ : 0;
  seconds_ = tokens_ = 0, steps_ = 0;
  const auto slow = slow_rank(comm_.all_gather_vector(std::span(&mine, 1)));
  if (slow && slow->rank != named_ && log_ && comm_.is_root())
    log_->warn(
        "rank {} on {} takes {:.1f} times as long for a token as the others, who wait for it: look "
        "there for other work, fewer cores or heat",
        slow->rank, hosts_[slow->rank], slow->times);
  named_ = slow ? std::optional(slow->rank) : std::nullopt;
}

}  // namespace gpuhpc
