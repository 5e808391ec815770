#pragma once
// gpuhpc/manifest.json: what every file of a model folder is, so that a damaged or mixed one is
// refused.
#include <filesystem>

#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

// The last step of a model: its manifest.
void seal_model(const std::filesystem::path& model);
// `files`: as describe_files gives them.
void write_model_manifest(const std::filesystem::path& model, const Json& files);
Json read_model_manifest(const std::filesystem::path& model);
// Throws unless every file is as its manifest says; says which files are none of the model's. A
// folder without a manifest is another program's and only refused where one is `required`.
// Collective: the root reads.
enum class Manifest { required, where_there };
void check_model(const std::filesystem::path& model, Manifest manifest, Communicator& comm,
                 const Log& log);

}  // namespace gpuhpc
