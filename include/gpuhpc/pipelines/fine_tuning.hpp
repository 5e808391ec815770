#pragma once
// What the stages that take or train an encoder share, whatever the job.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/pipelines/stage.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

struct ModelFiles {
  std::filesystem::path path;
  Paths files() const { return {path}; }
};

// The token shards in the folders 0, 1, .. of `folder`, for a training: of each file or column;
// none where it is not there.
std::vector<TokenDataset> open_datasets(const std::filesystem::path& folder);

struct NewModelFiles : StageFiles {  // of a model with new weights
  using StageFiles::StageFiles;
  std::filesystem::path model = output("model");
};
struct TrainedFiles : StageFiles {  // of every stage that trains
  using StageFiles::StageFiles;
  std::filesystem::path model = output("model");
  std::filesystem::path metrics = output("metrics.jsonl");
  std::filesystem::path ranks = output("ranks.jsonl");
};

// The model that a training begins with: one that an earlier training left, one made here, or a
// folder of the user's.
struct StartModel {
  std::optional<NewModelFiles> made;
  ModelFiles given;
  std::optional<TrainedFiles> trained = {};
  const std::filesystem::path& folder() const {
    return trained ? trained->model : made ? made->model : given.path;
  }
};

// Whether what a stage made of an encoder takes its place.
struct EncoderChoiceFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path choice = output("choice.json");  // "adapted" or "as it is"
  bool is_adapted() const;
};

struct AdaptedEncoder {
  TrainedFiles trained;
  EncoderChoiceFiles choice;
};

struct EncoderFiles {
  ModelFiles folder;  // of the user's
  PoolingOption pooling;
  PromptOption prompt = {};
  std::optional<AdaptedEncoder> adapted = {};  // what earlier stages made of it
  std::filesystem::path path() const;          // of the one that was chosen
  // A folder that it is saved in has the prompt for its default.
  LoadedEncoder load(at::Device device = at::kCPU) const;
  // That puts the prompt before documents.
  std::unique_ptr<Tokenizer> tokenizer() const;
};

// A group of its own rate; biases and LayerNorm weights have no decay.
struct RatedParameters {
  std::string name;
  double learning_rate;
  std::vector<ParameterSlot> parameters;
};
std::vector<ParameterGroup> parameter_groups(const std::vector<RatedParameters>& groups,
                                             const TrainOptions& options);

// How a model computes one micro-batch; `seed` is the one that the Trainer gives to the loss.
// `hidden` and `attention`: the dropout rates that it was published with.
ForwardOptions training_forward(at::Device device, double hidden, double attention,
                                const FineTuning& options, DropoutSeed seed);
ForwardOptions training_forward(const Encoder& encoder, const FineTuning& options,
                                DropoutSeed seed);

// The loss per counted item without dropout, in blocks of --train.eval-batch items that are dealt
// to ranks and summed in their order. Collective.
double mean_loss(Task& task, std::span<const std::int64_t> items, const TrainOptions& options,
                 Communicator& comm);

// A stage's surroundings as its Trainer wants them.
TrainContext train_context(const StageContext& context, const TrainingOptions& options,
                           const TrainedFiles& out);

// Trains, or takes the newest checkpoint where that is to be exported. The folder that the model is
// to be saved in. Collective.
std::filesystem::path train_or_export(Trainer& trainer, const StageContext& context,
                                      const TrainedFiles& out);

}  // namespace gpuhpc
