#include "gpuhpc/comm/links.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Small whole numbers: a float32 sum over hundreds of ranks is exact in any order. They differ from
// call to call, so that an old answer shows.
float part(std::int64_t i, std::int64_t call) {
  return static_cast<float>((static_cast<std::uint64_t>(i + call) * 2654435761u >> 16) % 31);
}

// Seconds of one call with its answers compared.
double checked_all_reduce(Communicator& comm, std::vector<float>& data, std::int64_t call) {
  const auto rank = static_cast<float>(comm.rank() + 1),
             ranks = static_cast<float>(comm.size()) * static_cast<float>(comm.size() + 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = rank * part(static_cast<std::int64_t>(i), call);
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  comm.all_reduce(std::span(data));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (std::size_t i = 0; i < data.size(); ++i)
    if (const float right = ranks * part(static_cast<std::int64_t>(i), call); data[i] != right)
      throw Error(
          ExitCode::peer,
          fmt::format("all_reduce of {} float32 gave {} as element {} where {} is right; keep this "
                      "host out of the launch and have its network and memory checked",
                      data.size(), data[i], i, right));
  return seconds;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;  // no such folder: nothing in it
  for (const auto& entry : fs::directory_iterator(folder, none)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

AllReduceRate measure_all_reduce(Communicator& comm, std::int64_t bytes, double budget) {
  std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float));
  checked_all_reduce(comm, data, 0);  // connections are made here
  const double once = comm.all_reduce_value(checked_all_reduce(comm, data, 1), Reduce::max);
  const auto calls = static_cast<std::int64_t>(std::clamp(budget / once, 3.0, 100.0));
  std::vector<double> seconds;
  for (std::int64_t call = 2; call < calls + 2; ++call)
    seconds.push_back(checked_all_reduce(comm, data, call));
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return {std::ssize(data) * static_cast<std::int64_t>(sizeof(float)),
          comm.all_reduce_value(*middle, Reduce::max)};
}

std::string describe_network() {
  std::vector<std::string> cards;
  for (const fs::path& card : entries("/sys/class/net")) {
    const std::string state = first_line(card / "operstate"), speed = first_line(card / "speed");
    if (card.filename() == "lo" || state == "down") continue;
    const double megabits = std::atof(speed.c_str());
    cards.push_back(card.filename().string() +
                    (megabits > 0 ? fmt::format(" {} Gbit/s", megabits / 1000) : ""));
  }
  for (const fs::path& card : entries("/sys/class/infiniband"))
    for (const fs::path& port : entries(card / "ports"))
      if (first_line(port / "state").ends_with("ACTIVE"))
        cards.push_back(card.filename().string() + " " + first_line(port / "rate"));
  return cards.empty() ? "none seen" : fmt::format("{}", fmt::join(cards, ", "));
}

}  // namespace gpuhpc
