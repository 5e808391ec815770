#include "gpuhpc/io/manifest.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/hdf5.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

std::string fingerprint_of(const Json& body) { return Fingerprint().add(body.dump()).hex(); }

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
  for (const auto& [name, file] : files.items()) {
    const fs::path path = folder / name;
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
