#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

Error stopped(bool on_all_ranks) {
  return {ExitCode::requeue,
          "stopped as asked by a signal; what is finished is kept: start the same command again to "
          "go on",
          on_all_ranks};
}

void StageContext::leave_if_asked() const {
  if (stop_requested && stop_requested()) throw stopped(false);
}

void StageContext::leave_together_if_asked() const {
  const std::int32_t asked = stop_requested && stop_requested() ? 1 : 0;
  if (comm.all_reduce_value(asked, Reduce::max) > 0) throw stopped(true);
}

}  // namespace gpuhpc
