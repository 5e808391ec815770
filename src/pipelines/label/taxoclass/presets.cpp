#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"

namespace gpuhpc {

std::vector<std::pair<std::string, std::string>> taxoclass_preset(const std::string& name) {
  // Rates lower than the student's: every class is a target of its own, and their losses are
  // summed.
  if (name == "recommended" || name == "fixed")
    return {{"train.epochs", "2"}, {"train.batch", "64"}};
  if (name != "paper")
    throw usage_error(
        "--pipeline.preset {}: --pipeline.method taxoclass has the presets recommended, fixed and "
        "paper",
        name);
  // Shen et al. 2021, section 4.1: AdamW, batch 64, rates 5e-5 and 4e-3, then 1e-6 and 5e-4 in
  // self-training, targets anew every 25 batches.
  return {{"scoring.class-texts", "name"},
          {"scoring.descriptions", "false"},
          {"scoring.centring", "0"},
          {"taxoclass.calibration", "names"},
          {"taxoclass.positive-confidence", "false"},
          {"taxoclass.against-parents", "true"},
          {"taxoclass.features", "words"},
          {"taxoclass.graph-hidden", "512"},
          {"taxoclass.graph-layers", "3"},
          {"taxoclass.graph-residual", "false"},
          {"taxoclass.graph-lr", "4e-3"},
          {"taxoclass.scale", "1"},
          {"taxoclass.link", "sigmoid-exp"},
          {"taxoclass.labels-from", "classifier"},
          {"taxoclass.self-training-head-lr", "5e-4"},
          {"train.encoder-lr", "5e-5"},
          {"train.head-lr", "4e-3"},
          {"train.batch", "64"},
          {"train.epochs", "5"},
          {"train.max-length", "256"},
          {"train.layers", "-1"},
          {"decode.mode", "top-k"}};
}

}  // namespace gpuhpc
