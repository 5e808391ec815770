#pragma once
// Checkpoints of a training run: `folder`/step-NNNNNNNN/ holds one part-RRRRR-of-SSSSS.bin a rank
// (its slices of the parameters and of both moments) and manifest.json, which lists the parts with
// their checksums and is written last: a folder without it is no checkpoint. A part is copied to
// host memory while the step waits; a thread writes it beside training, under a temporary name,
// synced, renamed. Any number of ranks and any strategy can load what others wrote: parts name the
// floats that they hold.
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/context.hpp"

namespace gpuhpc {

struct CheckpointSettings {
  std::filesystem::path folder;  // of this task alone; those of other options or data lie beside it
  CheckpointTask task;
  std::int64_t keep = 2;  // newest checkpoints that stay; the one of the best metric stays, too
};

// The flat buffers of a rank. Moments are laid over `owned` (floats of the arena), one range behind
// the other: all floats where every rank updates everything, else the rank's share; the shares of
// all ranks cover the arena.
struct CheckpointBuffers {
  ParameterArena& arena;
  std::vector<Range> owned;
  at::Tensor first_moment, second_moment;  // fp32 (sum of owned)
};

// The rest, the same on all ranks.
struct CheckpointState {
  std::int64_t step = 0;
  std::optional<double> metric;  // larger is better
  Json values;  // whatever else the owner needs to go on; finite numbers return to the bit
};

class CheckpointStore {
 public:
  CheckpointStore(CheckpointSettings settings, Communicator& comm, Log log);
  ~CheckpointStore();  // waits for this rank's writer
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Collective. The newest checkpoint whose every byte is as it was written, put into `buffers`;
  // nothing when there is none. A damaged or incomplete one is named in the log and passed over.
  // One of another task or model: configuration_error (exit 78).
  std::optional<CheckpointState> load(const CheckpointBuffers& buffers);

  // Collective. The same of one step; bad data (exit 65) when it is damaged or gone.
  CheckpointState load_step(std::int64_t step, const CheckpointBuffers& buffers);

  // Starts a checkpoint on this rank and returns when the copy in host memory is done: the seconds
  // that training waited. All ranks start the same one, after the one before was committed. Never
  // throws: what fails here is thrown by commit().
  double start(const CheckpointBuffers& buffers, const CheckpointState& state);

  // Of this rank, without waiting; the ranks agree on the sums of both and then call commit()
  // together: as soon as nobody is writing any more, and as soon as somebody failed.
  bool started() const {
    return started_;
  }  // begun by start(), not yet committed: the same on all ranks
  bool writing() const;
  bool failed();
  // Collective. Exchanges checksums; the manifest is then written by rank 0's thread. Throws on all
  // ranks what failed on any (exit 74).
  void commit();
  // Collective. Waits until the checkpoint under way is complete on disk.
  void finish();

  std::int64_t last_step() const {
    return last_step_;
  }  // of the newest checkpoint loaded or started; -1: none
  std::int64_t part_bytes() const { return std::ssize(image_); }  // of this rank's last part

 private:
  struct Part {
    std::int64_t bytes = 0;
    std::uint64_t hash_low = 0, hash_high = 0;
  };
  void keep_failure(const std::function<void()>& work);
  std::filesystem::path folder_of(std::int64_t step) const;
  std::string manifest_text(const std::vector<Part>& parts) const;
  void write_manifest(const std::string& text, std::int64_t step, std::optional<double> metric);
  void prune(std::int64_t newest);
  static std::vector<std::int64_t> steps_on_disk(const std::filesystem::path& folder);
  Json agree_on_manifest(std::int64_t step);
  std::string different_options(const Json& manifest) const;
  void refuse_other_task(const Json& manifest, std::int64_t step) const;
  void verify_parts(const Json& manifest, std::int64_t step);
  CheckpointState restore(const Json& manifest, std::int64_t step,
                          const CheckpointBuffers& buffers);
  void clear_newer(std::int64_t step);
  void name_others() const;

  CheckpointSettings settings_;
  Communicator& comm_;
  Log log_;
  std::vector<std::byte> image_;  // of this rank's part
  std::vector<ParameterArena::Entry> entries_;
  CheckpointState state_;  // of the checkpoint under way
  bool started_ = false;
  std::int64_t last_step_ = -1;
  // Rank 0: of the checkpoints on disk that have one. Before the futures, whose threads use it.
  std::map<std::int64_t, double> metrics_;
  std::future<Part> part_;
  std::future<void> manifest_;  // rank 0
  std::exception_ptr failure_;
};

// metrics.jsonl and its like, one JSON object with "step" a line: the lines after `step` go, a
// broken last line too.
void cut_step_lines(const std::filesystem::path& path, std::int64_t step);

}  // namespace gpuhpc
