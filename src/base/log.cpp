#include "gpuhpc/base/log.hpp"

#include <fmt/chrono.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <memory>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

Log make_console_log(int rank) {
  auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  // A progress line may stand on the terminal: it is wiped, and drawn again below.
  const std::string wipe = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  console->set_pattern(
      wipe + (rank == 0 ? "%^%H:%M:%S%$ %v" : fmt::format("%^%H:%M:%S%$ rank {}: %v", rank)));
  console->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  auto log = std::make_shared<spdlog::logger>("gpuhpc", console);
  log->flush_on(spdlog::level::info);
  // A log file on a full disk: said once, as one more line of the log, not in the library's words.
  const auto said = std::make_shared<std::atomic<bool>>(false);
  log->set_error_handler([wipe, said](const std::string& what) {
    if (said->exchange(true)) return;
    fmt::print(stderr, "{}{:%H:%M:%S} the log file cannot be written: {}\n", wipe,
               fmt::localtime(std::time(nullptr)), what);
  });
  return log;
}

void add_file_log(Log& log, const std::filesystem::path& folder, int rank) {
  const auto path = folder / fmt::format("rank-{:05d}.log", rank);
  try {
    std::filesystem::create_directories(folder);
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    file->set_pattern(fmt::format("%Y-%m-%dT%H:%M:%S.%e rank={} %l %v", rank));
    log->sinks().push_back(file);
  } catch (const std::exception& e) {
    throw io_error("{}: cannot open the log file ({}); choose a writable --run.dir", path.string(),
                   e.what());
  }
}

}  // namespace gpuhpc
