#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

std::vector<std::pair<std::string, std::string>> teleclass_preset(const std::string& name) {
  if (name == "recommended") return {};
  // TELEClass (WWW 2025), section 5.1: AdamW 5e-5, weight decay 5e-6, batch 64, 5 epochs, length
  // 512, clip 1.0.
  std::vector<std::pair<std::string, std::string>> published = {
      {"scoring.class-texts", "name"}, {"scoring.descriptions", "false"},
      {"teleclass.head", "bilinear"},  {"teleclass.refinement", name},
      {"scoring.centring", "0"},       {"teleclass.augmentation", "auto"},
      {"train.encoder-lr", "5e-5"},    {"train.head-lr", "4e-3"},
      {"train.weight-decay", "5e-6"},  {"train.batch", "64"},
      {"train.epochs", "5"},           {"train.max-length", "512"},
      {"train.layers", "-1"},          {"decode.mode", "top-k"}};
  if (name == "paper" || name == "code") return published;
  if (name != "multi-gpu") throw usage_error("--pipeline.preset {}: no such preset", name);
  // The multi-GPU variant (methods.md): keyword descriptions, top-20 means, positive weight 10,
  // threshold .5.
  for (auto& [option, value] : published) {
    if (option == "scoring.class-texts") value = "keywords";
    if (option == "decode.mode") value = "threshold";
  }
  published.emplace_back("teleclass.positive-weight", "10");
  return published;
}

}  // namespace gpuhpc
