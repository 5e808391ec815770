// libFuzzer target: what a run or model folder says of its own files (a model's manifest and
// settings, the manifest of token shards, a ledger) and an evaluation are read, or refused with one
// sentence that names the file, whatever they hold. The checksum of a manifest is made anew, so
// that what lies behind it is reached.
//   manifests_fuzz tests/app/fixtures/manifest_seeds
// The first line of the input says which of them the rest is.
#include <spdlog/logger.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/eval/results.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace {

namespace fs = std::filesystem;

void require(bool sound) {
  if (!sound) std::abort();
}

// A folder with a file of a model, and what is under test.
const fs::path& folder() {
  static const gpuhpc::ScratchFolder made;
  static const bool filled = [] {
    require(fs::create_directory(made / "gpuhpc"));
    gpuhpc::write_unsynced(made / "config.json", "{}");
    return true;
  }();
  require(filled);
  return made.path();
}

template <typename Read>
void read_or_refuse(const fs::path& path, const Read& read) {
  try {
    read();
  } catch (const gpuhpc::Error& error) {
    const std::string_view message = error.what();
    require(error.code() == gpuhpc::ExitCode::bad_data &&
            message.find('\n') == std::string_view::npos);
    require(message.starts_with(path.parent_path().string()));
  }
}

// The text under a checksum that fits; as it is where it is no object.
void write_sealed(const fs::path& path, std::string_view text) {
  try {
    gpuhpc::Json body = gpuhpc::parse_json(text, path.string());
    if (body.is_object()) {
      body.erase("fingerprint");
      return gpuhpc::write_manifest(path, std::move(body));
    }
  } catch (const gpuhpc::Error&) {
  }
  gpuhpc::write_unsynced(path, std::string(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), size);
  const std::string_view kind = input.substr(0, end), text = input.substr(std::min(end + 1, size));
  const fs::path own = folder() / "gpuhpc" / "manifest.json";
  if (kind == "model") {
    write_sealed(own, text);
    read_or_refuse(folder() / "config.json", [&] {
      static const auto comm = gpuhpc::make_single_communicator();
      static const auto log = std::make_shared<spdlog::logger>("manifests");
      gpuhpc::check_model(folder(), gpuhpc::Manifest::required, *comm, log);
    });
  } else if (kind == "shards") {
    write_sealed(folder() / "manifest.json", text);
    read_or_refuse(folder() / "manifest.json", [&] { gpuhpc::TokenDataset shards(folder()); });
  } else if (kind == "settings") {
    gpuhpc::write_unsynced(folder() / "gpuhpc" / "settings.json", std::string(text));
    read_or_refuse(folder() / "config.json", [&] { gpuhpc::read_settings(folder()); });
  } else if (kind == "evaluation") {
    gpuhpc::write_unsynced(folder() / "evaluation.json", std::string(text));
    read_or_refuse(folder() / "config.json",
                   [&] { gpuhpc::read_evaluation(folder() / "evaluation.json"); });
  } else if (kind == "ledger") {
    gpuhpc::write_unsynced(folder() / "ledger.json", std::string(text));
    read_or_refuse(folder() / "ledger.json", [&] { gpuhpc::Ledger ledger(folder()); });
  }
  return 0;
}
