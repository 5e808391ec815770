#include "gpuhpc/app/launch.hpp"

#include <cstdlib>
#include <map>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/gpu.hpp"

namespace gpuhpc {

void check_same_kind(const std::vector<RankPlace>& ranks) {
  std::size_t with = ranks.size(), without = ranks.size();
  for (std::size_t rank = ranks.size(); rank-- > 0;)
    (ranks[rank].cuda_devices > 0 ? with : without) = rank;
  if (with < ranks.size() && without < ranks.size())
    throw configuration_error(
        "rank {} on {} sees no GPU but rank {} on {} does; check nvidia-smi and "
        "CUDA_VISIBLE_DEVICES there, or use --device.kind cpu",
        without, ranks[without].host, with, ranks[with].host);
}

void check_gpus_apart(const std::vector<RankPlace>& ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> first;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].gpu.empty()) continue;
    const auto [other, alone] = first.try_emplace({ranks[rank].host, ranks[rank].gpu}, rank);
    if (!alone)
      throw configuration_error(
          "ranks {} and {} on {} drive the same GPU ({}); start one rank per GPU: the same number "
          "for --ntasks-per-node and --gpus-per-node",
          other->second, rank, ranks[rank].host, ranks[rank].gpu);
  }
}

DeviceChoice choose_device_together(Communicator& comm, const DeviceOptions& options) {
  RankPlace mine{comm.host(), "", 0};
  run_collectively(comm,
                   [&] { mine.cuda_devices = options.kind == "cpu" ? 0 : query_cuda_devices(); });
  const CoreSet cores = query_cores();
  const std::vector<std::string> hosts = comm.all_gather_strings(mine.host);
  const std::vector<std::int32_t> gpus =
      comm.all_gather_v(std::span<const std::int32_t>(&mine.cuda_devices, 1));
  const std::vector<std::string> sets = comm.all_gather_strings(cores.to_string());
  DeviceChoice choice;
  run_collectively(comm, [&] {
    std::vector<RankPlace> ranks;
    std::vector<CoreSet> on_host;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      ranks.push_back({hosts[rank], "", gpus[rank]});
      if (hosts[rank] == mine.host) on_host.emplace_back(sets[rank]);
    }
    if (options.kind != "cpu") check_same_kind(ranks);
    choice = choose_device(options, {mine.cuda_devices, share_of_cores(cores, on_host)},
                           comm.node_rank(), comm.node_size());
    if (choice.cuda) mine.gpu = query_gpu(choice.index).identity();
  });
  const std::vector<std::string> identities = comm.all_gather_strings(mine.gpu);
  run_collectively(comm, [&] {
    std::vector<RankPlace> ranks;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      ranks.push_back({hosts[rank], identities[rank], gpus[rank]});
    check_gpus_apart(ranks);
  });
  return choice;
}

std::string how_to_stop(const Environment& environment) {
  const char* seconds = environment("OMPI_MCA_odls_base_sigkill_timeout");
  if (environment("OMPI_COMM_WORLD_SIZE") == nullptr ||
      (seconds != nullptr && std::atoi(seconds) > 1))
    return "";
  return "to stop this run, send mpirun a SIGUSR1 (kill -USR1 PID): the ranks save and leave. At a "
         "Ctrl-C mpirun kills them within a second, saved or not";
}

}  // namespace gpuhpc
