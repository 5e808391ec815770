#include "gpuhpc/pipelines/label/replicas.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/comm/together.hpp"

namespace gpuhpc {

void run_replicas(
    const StageContext& c, const ParallelOptions& parallel, const std::filesystem::path& encoder,
    LoadedEncoder& own,
    const std::function<void(const StageContext& replica, LoadedEncoder& model)>& body) {
  const int replicas =
      parallel.replica_count(c.comm.size(), c.device.cuda ? query_cuda_devices() : 0);
  if (replicas == 1) return body(c, own);
  run_thread_ranks(replicas, parallel, [&](Communicator& comm) {
    DeviceChoice device = c.device;
    if (device.cuda) device.index = comm.rank();
    device.threads = std::max(1, c.device.threads / replicas);
    at::set_num_threads(device.threads);  // of this thread's operators
    if (comm.is_root())
      c.log->info("{} replicas of the model in this process, this one on {}", replicas,
                  describe(device));
    std::optional<LoadedEncoder> copy;
    together(comm, [&] {
      if (!comm.is_root()) copy.emplace(load_encoder(encoder, torch_device(device)));
    });
    body({comm, c.log, device, c.checkpoints, c.task, c.stop_requested, c.run_folder, c.name},
         copy ? *copy : own);
  });
  at::set_num_threads(c.device.threads);
}

}  // namespace gpuhpc
