#include "gpuhpc/pipelines/label/metrics_log.hpp"

#include <chrono>
#include <cmath>

#include "gpuhpc/comm/together.hpp"
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
      {"validation_loss", "validation/loss"},
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
  const Json rates = line.value("learning_rates", Json::object());
  for (const auto& [group, rate] : rates.items())
    scalars.push_back({"learning_rate/" + group, number(rate)});
  if (const double seconds = line.value("step_seconds", 0.0); seconds > 0) {
    scalars.push_back(
        {"speed/data_wait_percent", 100 * line.at("data_seconds").get<double>() / seconds});
    scalars.push_back({"speed/exposed_communication_percent",
                       100 * line.at("sum_seconds").get<double>() / seconds});
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
                       const DeviceChoice& device, const Communicator& comm)
    : lines_(std::move(lines)),
      events_(std::move(events)),
      model_(model),
      device_(device),
      root_(comm.is_root()),
      host_(comm.host()) {}

void MetricsLog::begin(std::int64_t done) {
  if (device_.cuda) gpu_.emplace(query_gpu(device_.index).bus);
  create_folder(lines_.parent_path());
  if (done == 0)
    write_text_file(lines_, "");
  else
    cut_step_lines(lines_, done);
  std::vector<Json> lines;
  double seconds = 0;
  LineReader reader(lines_);
  for (std::string line; reader.next(line);) {
    lines.push_back(parse_json(line, reader.where()));
    seconds += lines.back().value("step_seconds", 0.0);
  }
  empty_event_files(events_);
  double time = now() - seconds;
  file_.emplace(events_, host_, time);
  for (const Json& line : lines) {
    time += line.value("step_seconds", 0.0);
    file_->write(line.at("step"), time, scalars_of(line));
  }
}

void MetricsLog::step(const StepReport& r) {
  if (!root_) return;
  Json rates = Json::object();
  for (const ParameterArena::Group& group : model_.groups())
    rates[group.name] = group.learning_rate * r.rate_factor;
  const HostMemory tensors = host_memory();
  Json line{{"step", r.step},
            {"epoch", r.epoch},
            {"loss", r.loss},
            {"gradient_norm", r.gradient_norm},
            {"rate_factor", r.rate_factor},
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
            {"sum_seconds", r.sum_seconds},
            {"update_seconds", r.update_seconds},
            {"host_memory", tensors.peak > 0 ? tensors.used : resident_memory()}};
  if (device_.cuda) line["device_memory"] = device_memory(device_.index).used;
  if (const auto percent = gpu_ ? gpu_->utilisation() : std::nullopt)
    line["gpu_utilisation"] = *percent;
  add(line);
}

void MetricsLog::validation(std::int64_t step, std::int64_t epoch, double loss) {
  if (root_) add({{"step", step}, {"epoch", epoch}, {"validation_loss", loss}});
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
                  {"sum_seconds", s.sum_seconds},
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

}  // namespace gpuhpc
