#include "gpuhpc/pipelines/model_manifest.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/manifest.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

namespace {

constexpr const char* model_again = "copy the model folder again, or make it again";
constexpr std::int64_t manifest_version = 1;

fs::path manifest_of(const fs::path& model) { return model / "gpuhpc" / "manifest.json"; }

}  // namespace

void write_model_manifest(const fs::path& model, const Json& files) {
  write_manifest(manifest_of(model),
                 {{"format", "gpuhpc model"}, {"version", manifest_version}, {"files", files}});
}

Json read_model_manifest(const fs::path& model) {
  return read_manifest(manifest_of(model), "model", manifest_version, model_again);
}

void seal_model(const fs::path& model) {
  create_folder(model / "gpuhpc");
  remove_file(manifest_of(model));
  write_model_manifest(model, describe_files(model));
}

void check_model(const fs::path& model, Manifest manifest, Communicator& comm, const Log& log) {
  on_root(comm, [&] {
    if (manifest == Manifest::where_there && !fs::exists(manifest_of(model))) return;
    const Json body = read_model_manifest(model);
    for (const std::string& name :
         check_files(model, body.value("files", Json()), manifest_of(model), model_again))
      log->warn("{}: not a file of this model, its manifest does not have it",
                (model / name).string());
  });
}

}  // namespace gpuhpc
