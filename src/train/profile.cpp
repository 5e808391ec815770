#include "gpuhpc/train/profile.hpp"

#include <charconv>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

void declare(config::Section& section, ProfileOptions& options) {
  section
      .option("steps", options.steps,
              "updates whose phases each rank writes to trace/rank-NNNNN.json of the run "
              "folder, `10-12` or `5`; empty: none")
      .execution();
}

Range ProfileOptions::range() const {
  if (steps.empty()) return {};
  Range range;
  const char* const end = steps.data() + steps.size();
  auto read = std::from_chars(steps.data(), end, range.first);
  range.last = range.first;
  if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-')
    read = std::from_chars(read.ptr + 1, end, range.last);
  if (read.ec != std::errc{} || read.ptr != end || range.first < 1 || range.last < range.first)
    throw usage_error(
        "--profile.steps {}: neither a step nor two with a dash between; write 10-12 or 5", steps);
  ++range.last;
  return range;
}

Trace::Trace(Range steps, std::filesystem::path file, int rank, std::string host)
    : steps_(steps), file_(std::move(file)), rank_(rank), host_(std::move(host)) {}

std::int64_t Trace::now() const {
  const auto time = started_ + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                   std::chrono::steady_clock::now() - start_);
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

std::size_t Trace::begin(const char* name, std::int64_t number) {
  push_range(number < 0 ? name : fmt::format("{} {}", name, number));
  events_.push_back({name, number, step_, now(), 0});
  return events_.size() - 1;
}

void Trace::end(std::size_t event) {
  events_[event].end = now();
  pop_range();
}

void Trace::write() {
  Json events = Json::array({{{"ph", "M"},
                              {"name", "process_name"},
                              {"pid", rank_},
                              {"args", {{"name", fmt::format("rank {} on {}", rank_, host_)}}}}});
  for (const Event& event : events_)
    events.push_back(
        {{"ph", "X"},
         {"name", event.number < 0 ? event.name : fmt::format("{} {}", event.name, event.number)},
         {"ts", event.begin},
         {"dur", event.end - event.begin},
         {"pid", rank_},
         {"tid", 0},
         {"args", {{"step", event.step}}}});
  create_folder(file_.parent_path());
  write_text_file(file_, Json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump() + "\n");
  events_.clear();
}

}  // namespace gpuhpc
