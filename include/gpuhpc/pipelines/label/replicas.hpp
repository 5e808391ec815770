#pragma once
// --parallel.strategy dp: one process trains on several devices.
#include <functional>

#include "gpuhpc/comm/options.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// Under dp `body` runs once a replica, each in a thread of its own, with a communicator, a device
// and a model of its own: that of rank 0, in this thread, is `own`, the others are read from
// --model.encoder. On GPUs one each; on processors they share c.device.threads. Any other strategy:
// body(c, own). Collective. What `body` shares must not change; HDF5 files are opened before,
// because not every build of that library may be called from several threads. Several GPUs: never
// run.
void run_replicas(
    const StageContext& c, const ParallelOptions& parallel, const std::filesystem::path& encoder,
    LoadedEncoder& own,
    const std::function<void(const StageContext& replica, LoadedEncoder& model)>& body);

}  // namespace gpuhpc
