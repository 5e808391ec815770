#include <set>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/launch.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/links.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/report/terminal.hpp"

namespace gpuhpc {
namespace {

using Table = std::vector<std::vector<std::string>>;

std::string format_bytes(std::int64_t bytes) {
  return bytes < 1 << 20 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}
std::string format_rate(double rate) {
  return rate < 1e9 ? fmt::format("{:.1f} MB/s", rate / 1e6)
                    : fmt::format("{:.2f} GB/s", rate / 1e9);
}

// What each rank runs on, and each host's network and GPUs; each rank fills its row.
void show_places(CommandContext& c) {
  Communicator& comm = c.comm;
  RankPlace mine{comm.host(), "", 0};
  std::string device = "cpu", access = "-";
  run_collectively(comm, [&] {
    if (!c.device.cuda) return;
    const GpuFacts gpu = query_gpu(c.device.index);
    mine.cuda_devices = query_cuda_devices();
    device = fmt::format("cuda:{} {}, {} GiB", c.device.index, gpu.name, gpu.memory >> 30);
    const PeerAccess peers = query_peer_access(mine.cuda_devices);
    access = fmt::format("{} of {}", peers.direct, peers.pairs);
  });
  const auto gather = [&](const std::string& text) { return comm.all_gather_strings(text); };
  const auto hosts = gather(mine.host), devices = gather(device), accesses = gather(access),
             networks = gather(describe_network());
  const auto places = gather(std::to_string(comm.node_rank())),
             cores = gather(std::to_string(query_cores().count())),
             threads = gather(std::to_string(c.device.threads));
  on_root(comm, [&] {
    Table by_rank, by_host;
    std::set<std::string> seen;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      by_rank.push_back({std::to_string(rank), hosts[rank], places[rank], cores[rank],
                         threads[rank], devices[rank]});
      if (seen.insert(hosts[rank]).second)
        by_host.push_back({hosts[rank], std::to_string(std::ranges::count(hosts, hosts[rank])),
                           accesses[rank], networks[rank]});
    }
    fmt::print("{}, {} rank{} on {} host{}\n\n{}\n{}\n", "gpuhpc " GPUHPC_VERSION, hosts.size(),
               hosts.size() == 1 ? "" : "s", by_host.size(), by_host.size() == 1 ? "" : "s",
               format_table({"rank", "host", "local rank", "cores", "threads", "device"}, by_rank),
               format_table({"host", "ranks", "GPU pairs with direct access", "network"}, by_host));
  });
}

}  // namespace

// Where the ranks run, and the training's own all-reduce between them: answers and rates.
void doctor_command(CommandContext& c) {
  ParallelOptions parallel = c.options.shared.training.parallel;
  parallel.timeout = std::min<std::int64_t>(parallel.timeout, 60);  // nobody looks on for longer
  c.comm.configure(parallel);
  show_places(c);
  if (c.comm.size() == 1) {
    fmt::print(
        "one rank: there is nothing to measure. Start several with mpirun -np N or srun "
        "--mpi=pmix.\n");
    return;
  }
  Table rates;
  for (std::int64_t bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
    const AllReduceRate rate = measure_all_reduce(c.comm, bytes, .2);
    rates.push_back({format_bytes(rate.bytes), fmt::format("{:.3f} ms", 1e3 * rate.seconds),
                     format_rate(rate.rate()), format_rate(rate.link_rate(c.comm.size()))});
  }
  if (c.comm.is_root())
    fmt::print(
        "{}\nall_reduce of float32 in host memory; each link: what every rank sends and receives, "
        "2 (n - 1) / n of the bytes\nevery element of every answer is right\n",
        format_table({"bytes per rank", "time", "rate", "each link"}, rates));
}

}  // namespace gpuhpc
