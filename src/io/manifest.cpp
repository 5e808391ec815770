#include "gpuhpc/io/manifest.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::string fingerprint_of(const Json& body) { return Fingerprint().add(body.dump()).hex(); }

// Whether the name is that of a file in the folder that it is relative to.
bool is_inside(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  return !path.empty() && path.is_relative() && *path.begin() != ".." &&
         std::ranges::none_of(name, [](unsigned char c) { return c < ' '; });
}

// Names relative to the folder.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  return names;
}

std::string content_hash(const fs::path& file) { return Fingerprint().add_file(file).hex(); }

}  // namespace

void write_manifest(const fs::path& manifest, Json body) {
  body["fingerprint"] = fingerprint_of(body);
  write_json(manifest, body);
}

Json read_manifest(const fs::path& manifest, const std::string& format, std::int64_t version,
                   const std::string& cure) {
  if (!fs::exists(manifest))
    throw input_error("{}: there is no such file, so this folder holds no finished {}; {}",
                      manifest.string(), format, cure);
  Json body = read_json(manifest);
  if (!body.is_object() || body.value("format", Json()) != "gpuhpc " + format)
    throw input_error("{}: this is not a {} manifest of gpuhpc; {}", manifest.string(), format,
                      cure);
  if (body.value("version", Json()) != version)
    throw input_error("{}: made by another version of gpuhpc; {}", manifest.string(), cure);
  Json rest = body;
  rest.erase("fingerprint");
  if (body.value("fingerprint", Json()) != fingerprint_of(rest))
    throw input_error("{}: the manifest was altered (checksum); {}", manifest.string(), cure);
  return body;
}

Json describe_file(const fs::path& file) {
  Json facts{{"bytes", fs::file_size(file)}, {"hash", content_hash(file)}};
  if (file.extension() != ".h5") return facts;
  const Hdf5File arrays(file, Hdf5File::Verify::structure);
  for (const std::string& name : arrays.names()) facts["arrays"][name] = arrays.spec(name).shape;
  return facts;
}

Json describe_files(const fs::path& folder) {
  Json files = Json::object();
  for (const std::string& name : files_in(folder)) files[name] = describe_file(folder / name);
  return files;
}

std::vector<std::string> check_files(const fs::path& folder, const Json& files,
                                     const fs::path& manifest, const std::string& cure) {
  if (!files.is_object())
    throw input_error("{}: it does not say what its files are; {}", manifest.string(), cure);
  for (const auto& [name, file] : files.items()) {
    const fs::path path = folder / name;
    if (!is_inside(name) || !file.is_object() || !file.contains("bytes") || !file.contains("hash"))
      throw input_error("{}: {} is no file of this folder with its bytes and hash; {}",
                        manifest.string(), Json(name).dump(), cure);
    if (!fs::is_regular_file(path))
      throw input_error("{}: the file is missing, {} has it; {}", path.string(), manifest.string(),
                        cure);
    if (fs::file_size(path) != file.at("bytes") || content_hash(path) != file.at("hash"))
      throw input_error("{}: this is not the file that {} has (checksum); {}", path.string(),
                        manifest.string(), cure);
  }
  std::vector<std::string> strangers;
  for (const std::string& name : files_in(folder))
    if (!files.contains(name) && folder / name != manifest) strangers.push_back(name);
  return strangers;
}

void link_file(const fs::path& from, const fs::path& to) {
  create_folder(to.parent_path());
  remove_file(to);
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) gpuhpc::copy_file(from, to);
}

}  // namespace gpuhpc
