#pragma once
// manifest.json of a folder that is one thing: what its files are, under a checksum of itself.
// Written last: a folder without it is not finished.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

// Adds "fingerprint", a checksum of all the rest.
void write_manifest(const std::filesystem::path& manifest, Json body);
// Throws input_error when it is missing, altered or of another format or version; `cure` ends the
// sentence. `body` must have "format" and "version".
Json read_manifest(const std::filesystem::path& manifest, const std::string& format,
                   std::int64_t version, const std::string& cure);

// {"bytes", "hash" of the content, "arrays": {name: shape} of an HDF5 file}
Json describe_file(const std::filesystem::path& file);
// {name: the above} of every file of the folder and of those in it.
Json describe_files(const std::filesystem::path& folder);
// Throws input_error when one of them is missing or another one. The names of files that `files`
// does not have, `manifest` apart.
std::vector<std::string> check_files(const std::filesystem::path& folder, const Json& files,
                                     const std::filesystem::path& manifest,
                                     const std::string& cure);

// A second name for a finished file, in a folder that is made; a copy where the file system has no
// links.
void link_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace gpuhpc
