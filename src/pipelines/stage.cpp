#include "gpuhpc/pipelines/stage.hpp"

#include <algorithm>

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

std::filesystem::path Pipeline::folder(std::size_t stage) const {
  return run_folder_ / "stages" / fmt::format("{:02d}-{}", stage + 1, stages_[stage].name);
}

void Pipeline::read_after(Stage& stage, const std::string& earlier) const {
  if (std::ranges::find(stages_, earlier, &Stage::name) == stages_.end())
    throw internal_error(
        "stage {} reads what {} leaves, which is no earlier stage of this pipeline", stage.name,
        earlier);
  stage.after.push_back(earlier);
}

}  // namespace gpuhpc
