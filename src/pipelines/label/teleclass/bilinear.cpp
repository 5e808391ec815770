#include "gpuhpc/pipelines/label/teleclass/bilinear.hpp"

#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Token shards of the corpus, and of the generated documents when there are any.
std::vector<std::unique_ptr<TokenDataset>> open_datasets(const StageContext& c,
                                                         const BilinearStage& s,
                                                         const Tokenizer& tokenizer,
                                                         const fs::path& generated_tokens) {
  std::vector<std::unique_ptr<TokenDataset>> datasets;
  datasets.push_back(std::make_unique<TokenDataset>(s.encoding.tokens));
  if (fs::file_size(s.augmentation.documents) > 0) {
    prepare_shards(scan_corpus(s.augmentation.documents, {}, c.comm), tokenizer, generated_tokens,
                   s.shards, Texts::leave, c.comm, c.device.threads);
    datasets.push_back(std::make_unique<TokenDataset>(generated_tokens));
  }
  return datasets;
}

}  // namespace

void BilinearStage::run(const StageContext& c, const TrainedFiles& out) const {
  const TrainOptions& train = training.trainer.train;
  const fs::path generated_tokens = out.folder() / "generated_tokens";
  std::optional<LoadedEncoder> loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  LabelledSet set;
  run_collectively(c.comm, [&] {
    loaded.emplace(encoder.load(torch_device(c.device)));
    tokenizer = encoder.tokenizer();
    set = read_labels(labels.labels);
  });
  EmbeddingConfig unit = loaded->model.embedding;
  unit.normalise = true;
  const auto datasets = open_datasets(c, *this, *tokenizer, generated_tokens);
  const MappedMatrix classes(encoding.classes, "vectors");
  std::vector<const TokenDataset*> pointers;
  for (const auto& dataset : datasets) pointers.push_back(dataset.get());
  std::vector<float> weights;  // of all documents, filled below
  Encoder& trained = loaded->encoder;
  trained.train_top_layers(options.train_encoder ? training.encoder.layers : 0);
  BilinearHead head(classes.view(), BilinearStart::identity, static_cast<std::uint64_t>(train.seed),
                    trained.device());
  ParameterArena arena(
      parameter_groups({{"encoder", training.encoder.encoder_rate, trained_parameters(trained)},
                        {"head", training.encoder.head_rate, trained_parameters(head)}},
                       train),
      c.comm.size());
  const at::Device device = trained.device();
  const auto wanted = [&](std::span<const std::int64_t> of) {
    const MultiLabelBatch known = gather_labels(set.labels, classes.view().rows, of);
    return std::vector{known.targets, known.mask, gather_values(weights, of)};
  };
  const auto loss = [&](const TargetedIds& batch, DropoutSeed seed) {
    const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, device);
    return LossSum{
        masked_binary_cross_entropy(
            head.logits(trained.embed(packed, unit, training_forward(trained, training, seed))),
            to_device(batch.targets[0], device), to_device(batch.targets[1], device),
            options.positive_weight, to_device(batch.targets[2], device)),
        static_cast<double>(batch.size())};
  };
  DocumentTask task(pointers, std::min(training.encoder.max_length, unit.max_tokens),
                    tokenizer->special().single, loss, wanted);
  task.select(set.documents);
  weights.assign(static_cast<std::size_t>(task.documents()), 1);
  std::fill(weights.begin() + datasets.front()->size(), weights.end(),
            static_cast<float>(augmented_weight(set.real, set.generated)));
  Trainer(arena, task, train, train_context(c, training.trainer, out)).run();

  on_root(c.comm, [&] {
    copy_taxonomy(taxonomy, out.model);
    save_encoder_folder(out.model, loaded->encoder, loaded->model.embedding, loaded->model);
    const Matrix embeddings = head.class_embeddings(), interaction = head.interaction();
    write_arrays(out.model / "gpuhpc" / "head.h5",
                 {{"class_embeddings", embeddings.view()}, {"interaction", interaction.view()}});
    write_settings(out.model, {.kind = "bilinear"});
    seal_model(out.model);
    fs::remove_all(generated_tokens);
  });
}

}  // namespace gpuhpc
