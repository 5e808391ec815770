#include "gpuhpc/app/gpu_log.hpp"

#include <fmt/format.h>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {

GpuLog::GpuLog(std::filesystem::path path, Source source, Log log, std::chrono::milliseconds period)
    : path_(std::move(path)),
      source_(std::move(source)),
      log_(std::move(log)),
      period_(period),
      thread_([this, over = over_.get_future()]() mutable { watch(std::move(over)); }) {}

GpuLog::~GpuLog() {
  over_.set_value();
  thread_.join();
}

void GpuLog::watch(std::future<void> over) {
  try {
    create_folder(path_.parent_path());
    if (!std::filesystem::exists(path_))
      append_line(path_, "time,utilisation_percent,memory_bytes");
    GpuMeter meter(source_.bus, source_.functions);
    do {
      const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
      const auto percent = meter.utilisation();
      append_line(path_,
                  fmt::format("{:.1f},{},{}", now.count(),
                              percent ? fmt::format("{:g}", *percent) : "", source_.memory()));
    } while (over.wait_for(period_) == std::future_status::timeout);
  } catch (const std::exception& e) {
    log_->warn("{}: how busy the GPU is will not be written any more: {}", path_.string(),
               e.what());
  }
}

}  // namespace gpuhpc
