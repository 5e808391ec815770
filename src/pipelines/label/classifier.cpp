#include "gpuhpc/pipelines/label/classifier.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {

std::unique_ptr<Classifier> load_classifier(const std::filesystem::path& model,
                                            const InferOptions& infer, const DeviceChoice& device,
                                            Communicator& comm, Log log) {
  ClassifierSettings settings;
  Taxonomy taxonomy;
  run_collectively(comm, [&] {
    settings = read_settings(model);
    const auto file = [&](const std::string& name) {
      const auto plain = model / "gpuhpc" / name;
      return std::filesystem::exists(plain) ? plain : std::filesystem::path(plain.string() + ".gz");
    };
    taxonomy = Taxonomy::load(file("labels.txt"), file("label_hierarchy.txt"));
  });
  const auto load = settings.kind == "paths" ? load_path_classifier : load_bilinear_classifier;
  return load(model, std::move(taxonomy), settings, infer, device, comm, std::move(log));
}

}  // namespace gpuhpc
