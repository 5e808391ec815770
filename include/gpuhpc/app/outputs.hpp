#pragma once
// What a command may write over: what it wrote there before, and nothing else. usage_error with the
// option that names another place. On the root, before anything is computed.
#include <filesystem>
#include <string>

#include "gpuhpc/app/options.hpp"

namespace gpuhpc {

// `path`: new, empty, no regular file (a pipe), or one that begins with `begin`.
void check_output(const std::string& option, const std::filesystem::path& path,
                  const std::string& begin);
// --output.file of lines {"id", ...}, which is not the text that is read either.
void check_output_file(const Options& options);
// The page, and its data beside it.
void check_report(const std::filesystem::path& page, const std::string& option);

}  // namespace gpuhpc
