#pragma once
// manifest.json of a folder of token shards: what was tokenised by what, and one line a shard.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuhpc {

struct ShardEntry {
  std::int64_t documents = 0, tokens = 0, longest = 0;
  std::string head;  // fingerprint of the file's first 4 KiB, which hold the checksums' checksum:
                     // it stands for the whole file
};

struct ShardManifest {
  std::string tokenizer;  // its fingerprint
  std::int64_t vocabulary = 0;
  std::vector<ShardEntry> shards;
  std::string fingerprint;  // of all the above
};

inline constexpr const char* manifest_name = "manifest.json";
std::string shard_name(std::int64_t shard);  // "shard-00000.h5"
std::string head_fingerprint(const std::filesystem::path& shard_file);
void write_manifest(const std::filesystem::path& folder, const ShardManifest& manifest);
ShardManifest read_manifest(
    const std::filesystem::path& folder);  // input_error when missing or altered

}  // namespace gpuhpc
