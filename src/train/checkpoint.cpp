#include "gpuhpc/train/checkpoint.hpp"

#include <algorithm>
#include <chrono>

#include "checkpoint_part.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

std::string part_name(int rank, int size) {
  return fmt::format("part-{:05d}-of-{:05d}.bin", rank, size);
}

bool is_ready(const auto& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The failure of a save, with what it means for the run.
std::exception_ptr with_consequence(const std::exception_ptr& failure, std::int64_t step) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return std::make_exception_ptr(
        Error(error.code(),
              fmt::format("the checkpoint of step {} failed: {}; the one before it is untouched",
                          step, error.what())));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(
        Error(ExitCode::internal,
              fmt::format("the checkpoint of step {} failed: {}; the one before it is untouched",
                          step, error.what())));
  }
}

}  // namespace

CheckpointStore::CheckpointStore(CheckpointSettings settings, Communicator& comm, Log log)
    : settings_(std::move(settings)), comm_(comm), log_(std::move(log)) {}

CheckpointStore::~CheckpointStore() = default;  // a future of std::async waits for its thread

fs::path CheckpointStore::folder_of(std::int64_t step) const {
  return settings_.folder / fmt::format("step-{:08d}", step);
}

double CheckpointStore::start(const CheckpointBuffers& buffers, const CheckpointState& state) {
  const Clock::time_point begin = Clock::now();
  last_step_ = state.step;
  started_ = true;
  if (manifest_.valid()) keep_failure([&] { manifest_.get(); });
  if (failure_) return 0;
  keep_failure([&] {
    state_ = state;
    entries_ = buffers.arena.entries();
    fill_part(image_, buffers, state.step, comm_.rank(), comm_.size());
    part_ = std::async(std::launch::async, [this, folder = folder_of(state.step),
                                            name = part_name(comm_.rank(), comm_.size())] {
      const Clock::time_point start = Clock::now();
      create_folder(folder);
      AtomicFile file(folder / name);
      file.write(image_);
      const Hash128 hash = xxh3_128({reinterpret_cast<const char*>(image_.data()), image_.size()});
      file.commit();
      if (log_)
        log_->debug("{}: {} bytes in {:.3f} s", file.path().string(), image_.size(),
                    std::chrono::duration<double>(Clock::now() - start).count());
      return Part{std::ssize(image_), hash.low, hash.high};
    });
  });
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool CheckpointStore::writing() const { return part_.valid() && !is_ready(part_); }

bool CheckpointStore::failed() {
  if (manifest_.valid() && is_ready(manifest_)) keep_failure([&] { manifest_.get(); });
  return failure_ != nullptr;
}

// The first failure stays until commit() throws it on all ranks.
void CheckpointStore::keep_failure(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (!failure_) failure_ = with_consequence(std::current_exception(), state_.step);
  }
}

void CheckpointStore::commit() {
  Part mine;
  const std::int64_t step = state_.step;
  if (part_.valid()) keep_failure([&] { mine = part_.get(); });
  if (!started_ && manifest_.valid()) keep_failure([&] { manifest_.get(); });
  const bool begun = std::exchange(started_, false);
  run_collectively(comm_, [&, failure = std::exchange(failure_, nullptr)] {
    if (failure) std::rethrow_exception(failure);
  });
  if (!begun) return;
  const auto bytes =
      comm_.all_gather_v(std::span<const std::byte>(std::as_bytes(std::span(&mine, 1))));
  if (!comm_.is_root()) return;
  std::vector<Part> parts(static_cast<std::size_t>(comm_.size()));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(parts)).begin());
  manifest_ = std::async(std::launch::async,
                         [this, text = manifest_text(parts), step, metric = state_.metric] {
                           write_manifest(text, step, metric);
                         });
}

void CheckpointStore::finish() {
  if (started_) commit();
  commit();
}

// Lines of text whose last one is the checksum of those before it.
std::string CheckpointStore::manifest_text(const std::vector<Part>& parts) const {
  Json json = {{"format", 2}, {"step", state_.step}, {"values", state_.values}};
  json["metric"] = state_.metric ? Json(*state_.metric) : Json();
  json["task"] = {{"fingerprint", settings_.task.fingerprint}, {"options", settings_.task.options}};
  json["entries"] = Json::array();
  for (const ParameterArena::Entry& entry : entries_)
    json["entries"].push_back(
        {{"name", entry.name}, {"first", entry.range.first}, {"shape", entry.shape}});
  json["parts"] = Json::array();
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    json["parts"].push_back({{"file", part_name(static_cast<int>(rank), comm_.size())},
                             {"bytes", parts[rank].bytes},
                             {"xxh3", hex64(parts[rank].hash_high) + hex64(parts[rank].hash_low)}});
  const std::string text = json.dump(1) + "\n";
  const Hash128 hash = xxh3_128(text);
  return text + "xxh3 " + hex64(hash.high) + hex64(hash.low) + "\n";
}

void CheckpointStore::write_manifest(const std::string& text, std::int64_t step,
                                     std::optional<double> metric) {
  write_text_file(folder_of(step) / "manifest.json", text);
  if (metric) metrics_[step] = *metric;
  prune(step);
}

// Keeps the newest ones and the best one. The manifest goes first: what is left of a folder is then
// no checkpoint.
void CheckpointStore::prune(std::int64_t newest) {
  const auto best =
      std::ranges::max_element(metrics_, {}, [](const auto& entry) { return entry.second; });
  std::int64_t kept = 0;
  for (const std::int64_t step : steps_on_disk(settings_.folder)) {
    if (step > newest) continue;  // other ranks write the next one already
    const bool whole = fs::exists(folder_of(step) / "manifest.json");
    const bool among_newest = whole && kept++ < settings_.keep;
    if (among_newest || (whole && best != metrics_.end() && step == best->first)) continue;
    remove_file(folder_of(step) / "manifest.json");
    std::error_code ignored;  // what stays is tried again after the next checkpoint
    fs::remove_all(folder_of(step), ignored);
    metrics_.erase(step);
  }
}

std::vector<std::int64_t> CheckpointStore::steps_on_disk(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.size() > 5 && name.size() <= 20 &&
        std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      steps.push_back(std::stoll(name.substr(5)));
  }
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

}  // namespace gpuhpc
