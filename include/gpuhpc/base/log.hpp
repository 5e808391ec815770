#pragma once
// Rank-tagged log: rank 0 also speaks on standard error; every rank writes its own file in the run
// folder.
#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace gpuhpc {

using Log = std::shared_ptr<spdlog::logger>;

// Console only (rank 0); ranks above 0 print warnings and errors.
Log make_console_log(int rank);
// Adds `folder`/rank-NNNNN.log to an existing log. Throws io_error when the file cannot be opened.
void add_file_log(Log& log, const std::filesystem::path& folder, int rank);

}  // namespace gpuhpc
