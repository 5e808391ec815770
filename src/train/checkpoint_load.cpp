// Loading: which checkpoint, is it whole, is it ours, and back into the buffers.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint_part.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/train/checkpoint.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// The lines of a manifest without the checksum behind them.
std::string_view checked_text(std::string_view text, const fs::path& path) {
  constexpr std::size_t last_line = 5 + 32 + 1;  // "xxh3 ", digits, newline
  if (text.size() < last_line) throw input_error("{}: cut short", path.string());
  const std::string_view body = text.substr(0, text.size() - last_line);
  const Hash128 hash = xxh3_128(body);
  if (text.substr(body.size()) != "xxh3 " + hex64(hash.high) + hex64(hash.low) + "\n")
    throw input_error("{}: damaged (its checksum does not fit)", path.string());
  return body;
}

// A file that is gone or that the disk cannot give back is a damaged checkpoint, another will do;
// the rest is for the user to mend.
Error read_error(std::string_view action, const fs::path& path, int error_number) {
  const Error error = system_error(action, path, error_number);
  return error_number == ENOENT || error_number == EIO ? Error(ExitCode::bad_data, error.what())
                                                       : error;
}

std::vector<std::byte> read_part(const fs::path& path, std::int64_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw read_error("open", path, errno);
  std::vector<std::byte> image(static_cast<std::size_t>(bytes) +
                               1);  // one more: a longer file is seen
  std::size_t used = 0;
  ssize_t got = 0;
  while (used < image.size() &&
         ((got = ::read(descriptor, image.data() + used, image.size() - used)) > 0 ||
          (got < 0 && errno == EINTR)))
    used += static_cast<std::size_t>(std::max<ssize_t>(0, got));
  const int error_number = errno;
  ::close(descriptor);
  if (got < 0) throw read_error("read", path, error_number);
  if (used != static_cast<std::size_t>(bytes))
    throw input_error("{}: {} than the {} bytes that its manifest names", path.string(),
                      used < static_cast<std::size_t>(bytes) ? "shorter" : "longer", bytes);
  image.pop_back();
  return image;
}

// Every byte of a part, as it was written.
std::vector<std::byte> read_checked_part(const fs::path& folder, const Json& entry) {
  const fs::path path = folder / entry.at("file").get<std::string>();
  std::vector<std::byte> image = read_part(path, entry.at("bytes"));
  const Hash128 hash = xxh3_128({reinterpret_cast<const char*>(image.data()), image.size()});
  if (hex64(hash.high) + hex64(hash.low) != entry.at("xxh3").get<std::string>())
    throw input_error("{}: damaged (its checksum does not fit)", path.string());
  return image;
}

std::optional<double> metric_of(const Json& manifest) {
  return manifest.at("metric").is_null() ? std::nullopt
                                         : std::optional<double>(manifest.at("metric"));
}

// Nothing when it is missing or damaged.
std::optional<Json> read_manifest(const fs::path& path) {
  try {
    return parse_json(checked_text(read_text_file(path), path), path.string());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::int64_t numel(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

// Where the arena's entries lay when the checkpoint was written.
std::vector<Range> old_ranges(const Json& manifest, const ParameterArena& arena,
                              const fs::path& folder) {
  const Json& list = manifest.at("entries");
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < arena.entries().size() && i < list.size(); ++i) {
    const ParameterArena::Entry& entry = arena.entries()[i];
    if (list[i].at("name") != entry.name ||
        list[i].at("shape").get<std::vector<std::int64_t>>() != entry.shape)
      throw configuration_error(
          "{}: the checkpoint holds another model ({} where this one has {}); remove the folder to "
          "train afresh",
          folder.string(), list[i].at("name").get<std::string>(), entry.name);
    const std::int64_t first = list[i].at("first");
    ranges.push_back({first, first + numel(entry.shape)});
  }
  if (ranges.size() != arena.entries().size() || ranges.size() != list.size())
    throw configuration_error(
        "{}: the checkpoint holds another model ({} parameters, this one has {}); remove the "
        "folder to train afresh",
        folder.string(), list.size(), arena.entries().size());
  return ranges;
}

}  // namespace

std::optional<CheckpointState> CheckpointStore::load(const CheckpointBuffers& buffers) {
  std::vector<std::int64_t> steps;
  if (comm_.is_root()) steps = steps_on_disk(settings_.folder);
  steps = comm_.all_gather_v(std::span<const std::int64_t>(steps));
  std::optional<CheckpointState> state;
  for (const std::int64_t step : steps) {
    Json manifest;
    try {
      manifest = agree_on_manifest(step);
      verify_parts(manifest, step);
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_data) throw;
      if (log_ && comm_.is_root())
        log_->warn("checkpoint of step {} passed over: {}", step, error.what());
      continue;
    }
    refuse_other_task(manifest, step);
    state = restore(manifest, step, buffers);
    break;
  }
  last_step_ = state ? state->step : -1;
  on_root(comm_, [&] { clear_newer(last_step_); });
  if (log_ && comm_.is_root() && !state && !steps.empty())
    log_->warn("{}: no checkpoint is whole; training starts at the beginning",
               settings_.folder.string());
  if (log_ && comm_.is_root() && !state) name_others();
  return state;
}

CheckpointState CheckpointStore::load_step(std::int64_t step, const CheckpointBuffers& buffers) {
  const Json manifest = agree_on_manifest(step);
  verify_parts(manifest, step);
  refuse_other_task(manifest, step);
  return restore(manifest, step, buffers);
}

// Rank 0 reads, all ranks get the same text; an error is that of all ranks.
Json CheckpointStore::agree_on_manifest(std::int64_t step) {
  const fs::path path = folder_of(step) / "manifest.json";
  std::string text;
  on_root(comm_, [&] {
    if (!fs::exists(path))
      throw input_error("{}: it was not finished (no manifest.json)", path.parent_path().string());
    text = read_text_file(path);
    checked_text(text, path);
  });
  text = comm_.broadcast_string(std::move(text));
  Json manifest;
  run_collectively(comm_, [&] {
    manifest = parse_json(checked_text(text, path), path.string());
    if (manifest.value("format", 0) != 2)
      throw input_error("{}: written by another version", path.string());
    if (manifest.at("step") != step)
      throw input_error("{}: the manifest of step {}", path.string(),
                        manifest.at("step").get<std::int64_t>());
  });
  return manifest;
}

// The ranks share the work; nothing of this rank is touched yet.
void CheckpointStore::verify_parts(const Json& manifest, std::int64_t step) {
  const Json& parts = manifest.at("parts");
  run_collectively(comm_, [&] {
    for (std::size_t i = static_cast<std::size_t>(comm_.rank()); i < parts.size();
         i += static_cast<std::size_t>(comm_.size()))
      view_part(read_checked_part(folder_of(step), parts[i]), parts[i].at("file"));
  });
}

std::string CheckpointStore::different_options(const Json& manifest) const {
  std::string differences;
  for (const auto& line : manifest.at("task").at("options").get<std::vector<std::string>>())
    if (std::ranges::find(settings_.task.options, line) == settings_.task.options.end())
      differences += (differences.empty() ? "" : ", ") + line;
  return differences.empty() ? "other input files" : differences;
}

// Each task has its own folder: only somebody who moved things gets here.
void CheckpointStore::refuse_other_task(const Json& manifest, std::int64_t step) const {
  if (manifest.at("task").at("fingerprint") == settings_.task.fingerprint) return;
  throw Error(
      ExitCode::configuration,
      fmt::format("{}: this checkpoint belongs to another task (it was trained with {}); give the "
                  "old options and data to go on with it, or remove {} to train afresh",
                  folder_of(step).string(), different_options(manifest), settings_.folder.string()),
      true);
}

// Who starts at the beginning may have meant to go on with what another run left.
void CheckpointStore::name_others() const {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(settings_.folder.parent_path(), none)) {
    if (entry.path() == settings_.folder) continue;
    const std::vector<std::int64_t> steps = steps_on_disk(entry.path());
    if (steps.empty()) continue;
    const auto manifest =
        read_manifest(entry.path() / fmt::format("step-{:08d}", steps.front()) / "manifest.json");
    log_->warn(
        "training starts at the beginning; {} holds step {} of training with {}, kept for a run "
        "with that: remove it when there will be none",
        entry.path().string(), steps.front(),
        manifest ? different_options(*manifest) : "other options or data");
  }
}

CheckpointState CheckpointStore::restore(const Json& manifest, std::int64_t step,
                                         const CheckpointBuffers& buffers) {
  CheckpointState state{step, metric_of(manifest), manifest.at("values")};
  run_collectively(comm_, [&] {
    const std::vector<Range> old_entries = old_ranges(manifest, buffers.arena, folder_of(step));
    std::int64_t found = 0, wanted = 0;
    for (const Range& entry : old_entries) wanted += entry.size();
    for (const Json& entry : manifest.at("parts")) {
      const std::vector<std::byte> image = read_checked_part(folder_of(step), entry);
      const PartView part = view_part(image, entry.at("file"));
      found += restore_part(part, old_entries, buffers);
    }
    if (found != wanted)
      throw internal_error("{}: the parts hold {} of {} parameters", folder_of(step).string(),
                           found, wanted);
  });
  return state;
}

// What is newer than the checkpoint that training goes on from was passed over, and its steps will
// be written again: what was never finished goes, what is damaged is put aside under another name.
// The older ones stay, for the next time.
void CheckpointStore::clear_newer(std::int64_t step) {
  for (const std::int64_t other : steps_on_disk(settings_.folder)) {
    const fs::path folder = folder_of(other), manifest = folder / "manifest.json",
                   aside = folder.string() + ".damaged";
    if (other > step) {
      std::error_code error;
      fs::remove_all(fs::exists(manifest) ? aside : folder, error);
      if (!error && fs::exists(manifest)) fs::rename(folder, aside, error);
      if (error) throw system_error("move", folder, error.value());
    } else if (const auto whole = read_manifest(manifest); whole && metric_of(*whole)) {
      metrics_[other] = *metric_of(*whole);
    }
  }
}

void cut_step_lines(const fs::path& path, std::int64_t step) {
  if (!fs::exists(path)) return;
  const std::string text = read_text_file(path);
  std::string kept;
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t end = text.find('\n', first);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(text).substr(first, end + 1 - first);
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line;
    first = end + 1;
  }
  if (kept != text) write_text_file(path, kept);
}

}  // namespace gpuhpc
