#include "gpuhpc/train/watch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/train/checkpoint.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What TensorBoard shows of a line. JSON has null for what is not finite; a chart shows it as NaN.
std::vector<Scalar> scalars_of(const Json& line) {
  static constexpr std::pair<const char*, const char*> tags[] = {
      {"loss", "train/loss"},
      {"gradient_norm", "train/gradient_norm"},
      {"tokens_per_second", "speed/tokens_per_second"},
      {"host_memory", "memory/host_bytes"},
      {"device_memory", "memory/device_bytes"},
      {"gpu_utilisation", "speed/gpu_utilisation_percent"}};
  const auto number = [](const Json& value) {
    return value.is_number() ? value.get<double>() : std::nan("");
  };
  std::vector<Scalar> scalars;
  for (const auto& [key, tag] : tags)
    if (line.contains(key)) scalars.push_back({tag, number(line.at(key))});
  if (const std::string name = line.value("dataset", ""); !name.empty())
    scalars.push_back({"train/loss_" + name, number(line.at("loss"))});
  for (const auto& [key, value] : line.items())
    if (constexpr std::string_view prefix = "validation_"; key.starts_with(prefix))
      scalars.push_back({"validation/" + key.substr(prefix.size()), number(value)});
  const Json rates = line.value("learning_rates", Json::object());
  for (const auto& [group, rate] : rates.items())
    scalars.push_back({"learning_rate/" + group, number(rate)});
  if (const double seconds = line.value("step_seconds", 0.0); seconds > 0) {
    scalars.push_back(
        {"speed/data_wait_percent", 100 * line.at("data_seconds").get<double>() / seconds});
    scalars.push_back({"speed/exposed_communication_percent",
                       100 * line.at("exposed_communication_seconds").get<double>() / seconds});
  }
  return scalars;
}

// A TensorBoard that is open goes from a file's end to the next file, but not away from one that is
// gone: a file goes when it has been empty for a whole start.
void empty_event_files(const fs::path& folder) {
  create_folder(folder);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  for (const fs::path& file : files)
    if (fs::file_size(file) > 0)
      fs::resize_file(file, 0);
    else
      fs::remove(file);
}

}  // namespace

MetricsLog::MetricsLog(fs::path lines, fs::path events, const ParameterArena& model,
                       const DeviceChoice& device, std::string host)
    : lines_(std::move(lines)),
      events_(std::move(events)),
      model_(model),
      device_(device),
      host_(std::move(host)) {}

void MetricsLog::begin(std::int64_t done) {
  if (device_.cuda) gpu_.emplace(query_gpu(device_.index).bus);
  create_folder(lines_.parent_path());
  if (done == 0)
    write_text_file(lines_, "");
  else
    cut_step_lines(lines_, done);
  const auto for_lines = [&](const auto& use) {
    LineReader reader(lines_);
    for (std::string line; reader.next(line);) use(parse_json(line, reader.where()));
  };
  double time = now();
  for_lines([&](const Json& line) { time -= line.value("step_seconds", 0.0); });
  empty_event_files(events_);
  file_.emplace(events_, host_, time);
  for_lines([&](const Json& line) {
    time += line.value("step_seconds", 0.0);
    file_->write(line.at("step"), time, scalars_of(line));
  });
}

void MetricsLog::step(const StepReport& r) {
  Json rates = Json::object();
  for (const ParameterArena::Group& group : model_.groups())
    rates[group.name] = group.learning_rate * r.learning_rate_multiplier;
  Json line{{"step", r.step},
            {"epoch", r.epoch},
            {"loss", r.loss},
            {"gradient_norm", r.gradient_norm},
            {"learning_rate_multiplier", r.learning_rate_multiplier},
            {"learning_rates", rates},
            {"skipped", r.skipped},
            {"documents", r.documents},
            {"tokens", r.tokens},
            {"tokens_per_second", r.tokens_per_second},
            {"micro_batch", r.micro_batch},
            {"loss_scale", r.loss_scale},
            {"step_seconds", r.step_seconds},
            {"data_seconds", r.data_seconds},
            {"compute_seconds", r.compute_seconds},
            {"exposed_communication_seconds", r.exposed_communication_seconds},
            {"update_seconds", r.update_seconds},
            {"host_memory", host_memory().used}};
  if (!r.corpus.empty()) line["dataset"] = r.corpus;
  if (device_.cuda) line["device_memory"] = device_memory(device_.index).used;
  if (const auto percent = gpu_ ? gpu_->utilisation() : std::nullopt)
    line["gpu_utilisation"] = *percent;
  add(line);
}

void MetricsLog::validation(std::int64_t step, std::int64_t epoch,
                            const std::vector<std::pair<std::string, double>>& values,
                            const Json& samples) {
  Json line{{"step", step}, {"epoch", epoch}};
  for (const auto& [name, value] : values) line["validation_" + name] = value;
  if (!samples.is_null()) line["samples"] = samples;
  add(line);
}

void MetricsLog::add(const Json& line) {
  append_line(lines_, line.dump());
  file_->write(line.at("step"), now(), scalars_of(line));
}

void write_rank_times(const fs::path& path, const TrainSummary& s, const DeviceChoice& device,
                      Communicator& comm) {
  const Json mine{{"rank", comm.rank()},
                  {"host", comm.host()},
                  {"device", describe(device)},
                  {"steps", s.own_steps},
                  {"tokens", s.own_tokens},
                  {"data_seconds", s.data_seconds},
                  {"compute_seconds", s.compute_seconds},
                  {"exposed_communication_seconds", s.exposed_communication_seconds},
                  {"update_seconds", s.update_seconds},
                  {"other_seconds", s.other_seconds},
                  {"wall_seconds", s.seconds},
                  {"peak_memory", device.cuda ? device_memory(device.index).peak : peak_memory()}};
  const std::vector<std::string> all = comm.all_gather_strings(mine.dump());
  on_root(comm, [&] {
    std::string lines;
    for (const std::string& line : all) lines += line + "\n";
    write_text_file(path, lines);
  });
}

std::optional<SlowRank> slow_rank(std::span<const double> seconds_a_token) {
  if (seconds_a_token.size() < 2) return std::nullopt;
  std::vector<double> others(seconds_a_token.begin(), seconds_a_token.end());
  const auto slowest = std::ranges::max_element(others);
  const auto rank = static_cast<std::size_t>(slowest - others.begin());
  others.erase(slowest);
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::ranges::nth_element(others, middle);
  if (!(*middle > 0)) return std::nullopt;  // most had nothing to compute
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
  const auto slow = slow_rank(comm_.all_gather_v(std::span(&mine, 1)));
  if (slow && slow->rank != named_ && log_ && comm_.is_root())
    log_->warn(
        "rank {} on {} takes {:.1f} times as long for a token as the others, who wait for it: look "
        "there for other work, fewer cores or heat",
        slow->rank, hosts_[slow->rank], slow->times);
  named_ = slow ? std::optional(slow->rank) : std::nullopt;
}

namespace {

double percent(double part, const TrainSummary& s) {
  return 100 * part /
         std::max(1e-9, s.data_seconds + s.compute_seconds + s.exposed_communication_seconds +
                            s.update_seconds + s.other_seconds);
}

}  // namespace

std::string describe_times(const TrainSummary& s) {
  return fmt::format(
      "waiting for data {:.1f}%, compute {:.0f}%, sums over ranks {:.0f}%, update {:.0f}%, other "
      "{:.0f}%; {:.0f} tokens/s",
      percent(s.data_seconds, s), percent(s.compute_seconds, s),
      percent(s.exposed_communication_seconds, s), percent(s.update_seconds, s),
      percent(s.other_seconds, s), static_cast<double>(s.own_tokens) / std::max(1e-9, s.seconds));
}

std::vector<std::string> time_advice(const TrainSummary& s) {
  std::vector<std::string> sentences;
  if (const double data = percent(s.data_seconds, s); data > 5)
    sentences.push_back(fmt::format(
        "{:.0f}% of the training went into waiting for data: more --data.workers (12) with "
        "--data.prefetch 6 where cores are idle, else put the run folder on a faster "
        "disk, or start fewer ranks on a host",
        data));
  if (const double sums = percent(s.exposed_communication_seconds, s); sums > 20)
    sentences.push_back(
        fmt::format("{:.0f}% of the training went into sums over ranks that no computing hides: a "
                    "larger --train.batch, --parallel.reduce-type bf16, or fewer ranks",
                    sums));
  return sentences;
}

}  // namespace gpuhpc
