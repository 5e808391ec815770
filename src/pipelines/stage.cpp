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

void Pipeline::refuse_unread(const config::OptionSet& given,
                             std::span<const std::string_view> prefixes) const {
  for (const std::string& name : given.given_on_command_line()) {
    const std::string value = given.value(name), line_begin = name + " = ";
    if (value.empty() || std::ranges::find(also_read, name) != also_read.end())
      continue;  // empty: clears what a config names
    bool taken = false;
    std::string another;  // "STAGE has VALUE"
    for (const Stage& stage : stages_)
      for (const std::string& line : stage.settings) {
        if (!line.starts_with(line_begin)) continue;
        const std::string own = line.substr(line_begin.size());
        if (own == value) taken = true;
        if (own != value) another = fmt::format("{} has {}", stage.name, own);
      }
    if (taken) continue;
    if (!another.empty())
      throw usage_error(
          "--{} {}: no stage of this run takes it ({}); leave it out, or choose a method, a "
          "preset or an option whose stages do",
          name, value, another);
    const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(prefixes, begins) ||
        (name.starts_with("train.") && given.decides_results(name)))
      throw usage_error(
          "--{} {}: no stage of this run reads it; leave it out, or choose a method, a preset or "
          "an option whose stages do",
          name, value);
  }
}

void Pipeline::read_after(Stage& stage, const std::string& earlier) const {
  if (std::ranges::find(stages_, earlier, &Stage::name) == stages_.end())
    throw internal_error(
        "stage {} reads what {} leaves, which is no earlier stage of this pipeline", stage.name,
        earlier);
  stage.after.push_back(earlier);
}

}  // namespace gpuhpc
