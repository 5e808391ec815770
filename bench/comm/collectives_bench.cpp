// all_reduce between ranks: time, bandwidth and processor time. Run under scripts/mpirun.sh; rank 0
// prints. bus GB/s = 2 (n - 1) / n x bytes / time, what each rank must send at least: comparable
// for any number of ranks n. core % = processor time of this rank's process / wall time; 100 is one
// core.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/mpi.hpp"

namespace {

using gpuhpc::Communicator;
using gpuhpc::DataType;
using gpuhpc::Reduce;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Ones, so that the sum is the number of ranks in every type.
std::vector<std::uint8_t> ones(DataType type, std::int64_t bytes) {
  std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes));
  const std::uint32_t word =
      type == DataType::float32 ? std::bit_cast<std::uint32_t>(1.0f) : 0x3f803f80u;
  std::generate_n(reinterpret_cast<std::uint32_t*>(data.data()), bytes / 4,
                  [word] { return word; });
  return data;
}

float element(const std::vector<std::uint8_t>& data, DataType type, std::int64_t i) {
  if (type == DataType::float32) return reinterpret_cast<const float*>(data.data())[i];
  return std::bit_cast<float>(
      static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(data.data())[i]) << 16);
}

void check_answer(Communicator& comm, DataType type, std::int64_t bytes) {
  std::vector<std::uint8_t> data = ones(type, bytes);
  const std::int64_t count = bytes / static_cast<std::int64_t>(gpuhpc::size_of(type));
  comm.all_reduce(data.data(), count, type, Reduce::sum);
  for (std::int64_t i = 0; i < count; ++i)
    if (element(data, type, i) != static_cast<float>(comm.size()))
      throw gpuhpc::internal_error("element {} of {} bytes is wrong", i, bytes);
}

void measure_sizes(Communicator& comm) {
  if (comm.is_root())
    fmt::print("{:>10} {:>6} {:>10} {:>10} {:>10} {:>8}\n", "bytes", "type", "median us",
               "worst us", "bus GB/s", "core %");
  for (const DataType type : {DataType::float32, DataType::bfloat16}) {
    for (std::int64_t bytes = 8; bytes <= (std::int64_t{64} << 20); bytes *= 8) {
      check_answer(comm, type, bytes);
      std::vector<std::uint8_t> data(static_cast<std::size_t>(bytes));
      const std::int64_t count = bytes / static_cast<std::int64_t>(gpuhpc::size_of(type));
      const int rounds = bytes <= (1 << 16) ? 1000 : bytes <= (1 << 23) ? 50 : 8;
      std::vector<double> times;
      comm.barrier();
      const double burnt = processor_seconds();
      const auto begin = Clock::now();
      for (int i = 0; i < rounds; ++i) {
        const auto start = Clock::now();
        comm.all_reduce(data.data(), count, type, Reduce::sum);
        times.push_back(seconds_since(start));
      }
      const double core = (processor_seconds() - burnt) / seconds_since(begin);
      std::sort(times.begin(), times.end());
      const double median = times[times.size() / 2], n = comm.size();
      if (comm.is_root())
        fmt::print("{:10} {:>6} {:10.1f} {:10.1f} {:10.2f} {:8.0f}\n", bytes,
                   type == DataType::float32 ? "fp32" : "bf16", median * 1e6, times.back() * 1e6,
                   2 * (n - 1) / n * static_cast<double>(bytes) / median * 1e-9, core * 100);
    }
  }
}

// Rank 0 comes late: what do the others burn meanwhile?
void measure_waiting(Communicator& comm) {
  comm.barrier();
  const double burnt = processor_seconds();
  const auto start = Clock::now();
  if (comm.is_root()) std::this_thread::sleep_for(std::chrono::seconds(2));
  comm.barrier();
  double core = comm.is_root() ? 0 : (processor_seconds() - burnt) / seconds_since(start) * 100;
  core = comm.all_reduce_value(core, Reduce::max);
  if (comm.is_root()) fmt::print("waiting 2 s for a late rank: {:.1f} % of a core\n", core);
}

double compute(double* sink, std::int64_t rounds) {
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < rounds; ++i) *sink = *sink * .999999 + 1e-7;
  return seconds_since(start);
}

// A bucket travels while this thread computes: exposed = wall time beyond the computation alone;
// hidden = the rest of what the collective takes alone.
void measure_overlap(Communicator& comm) {
  constexpr std::int64_t kBytes = 25 << 20, kRounds = 100'000'000;
  std::vector<float> data(kBytes / 4);
  double sink = 0;
  const auto all_reduce = [&] {
    return comm.start_all_reduce(data.data(), std::ssize(data), DataType::float32, Reduce::sum);
  };
  std::vector<double> alone, both, travel;
  for (int i = 0; i < 5; ++i) {
    comm.barrier();
    alone.push_back(compute(&sink, kRounds));
    comm.barrier();
    auto start = Clock::now();
    all_reduce()->wait();
    travel.push_back(seconds_since(start));
    comm.barrier();
    start = Clock::now();
    const auto work = all_reduce();
    compute(&sink, kRounds);
    work->wait();
    both.push_back(seconds_since(start));
  }
  const auto median = [](std::vector<double>& v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  };
  const double a = median(alone), t = median(travel), b = median(both);
  if (comm.is_root())
    fmt::print(
        "25 MiB beside a computation: computation {:.1f} ms, all_reduce alone {:.1f} ms, both "
        "{:.1f} ms: {:.0f} % hidden (sink {:.1f})\n",
        a * 1e3, t * 1e3, b * 1e3, std::clamp(1 - (b - a) / t, 0.0, 1.0) * 100, sink);
}

}  // namespace

int main() {
  gpuhpc::MpiSession mpi;
  const auto comm = gpuhpc::MpiSession::world();
  if (comm->is_root()) fmt::print("{} ranks\n", comm->size());
  measure_sizes(*comm);
  measure_waiting(*comm);
  measure_overlap(*comm);
}
