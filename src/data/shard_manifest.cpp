#include "shard_manifest.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/mapped_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t format_version = 1;
constexpr std::size_t head_bytes = 4096;

Json body_of(const ShardManifest& manifest) {
  Json shards = Json::array();
  std::int64_t documents = 0, tokens = 0;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const ShardEntry& shard = manifest.shards[i];
    shards.push_back({{"file", shard_name(static_cast<std::int64_t>(i))},
                      {"documents", shard.documents},
                      {"tokens", shard.tokens},
                      {"longest", shard.longest},
                      {"head", shard.head}});
    documents += shard.documents;
    tokens += shard.tokens;
  }
  return {{"format", "gpuhpc token shards"},
          {"version", format_version},
          {"tokenizer", manifest.tokenizer},
          {"vocabulary", manifest.vocabulary},
          {"documents", documents},
          {"tokens", tokens},
          {"shards", shards}};
}

}  // namespace

std::string shard_name(std::int64_t shard) { return fmt::format("shard-{:05}.h5", shard); }

std::string head_fingerprint(const fs::path& shard_file) {
  const MappedFile file(shard_file);
  if (file.bytes().size() < head_bytes)
    throw input_error("{}: the shard was cut; run `gpuhpc prepare` again", shard_file.string());
  return Fingerprint()
      .add(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), head_bytes))
      .hex();
}

void write_manifest(const fs::path& folder, const ShardManifest& manifest) {
  Json all = body_of(manifest);
  all["fingerprint"] = Fingerprint().add(all.dump()).hex();
  write_json(folder / manifest_name, all);
}

ShardManifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  if (!fs::exists(path))
    throw input_error(
        "{}: there is no such file, so this folder holds no finished token shards; run `gpuhpc "
        "prepare`",
        path.string());
  Json all = read_json(path);
  try {
    ShardManifest manifest;
    manifest.fingerprint = all.at("fingerprint").get<std::string>();
    all.erase("fingerprint");
    if (Fingerprint().add(all.dump()).hex() != manifest.fingerprint)
      throw input_error("{}: the manifest was altered (checksum); run `gpuhpc prepare` again",
                        path.string());
    if (all.at("version") != format_version)
      throw input_error("{}: made by another version of gpuhpc; run `gpuhpc prepare` again",
                        path.string());
    manifest.tokenizer = all.at("tokenizer").get<std::string>();
    manifest.vocabulary = all.at("vocabulary").get<std::int64_t>();
    for (const Json& shard : all.at("shards")) {
      manifest.shards.push_back(
          {shard.at("documents").get<std::int64_t>(), shard.at("tokens").get<std::int64_t>(),
           shard.at("longest").get<std::int64_t>(), shard.at("head").get<std::string>()});
    }
    return manifest;
  } catch (const Json::exception&) {
    throw input_error("{}: this is not a manifest of token shards; run `gpuhpc prepare` again",
                      path.string());
  }
}

}  // namespace gpuhpc
