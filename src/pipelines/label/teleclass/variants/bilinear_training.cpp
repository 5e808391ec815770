#include "gpuhpc/pipelines/label/teleclass/variants/bilinear_training.hpp"

#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/label_lists.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Token shards of the corpus, and of the generated documents when there are any.
std::vector<std::unique_ptr<TokenDataset>> open_datasets(const StageContext& c,
                                                         const TeleclassPipelineOptions& o,
                                                         const Tokenizer& tokenizer) {
  std::vector<std::unique_ptr<TokenDataset>> datasets;
  datasets.push_back(std::make_unique<TokenDataset>(c.folder_of("encoding") / "tokens"));
  const fs::path generated = c.folder_of("augmentation") / "generated_docs.txt";
  if (fs::file_size(generated) > 0) {
    prepare_shards(generated, CorpusOptions{}, tokenizer, c.folder / "generated_tokens", o.shards,
                   c.comm);
    datasets.push_back(std::make_unique<TokenDataset>(c.folder / "generated_tokens"));
  }
  return datasets;
}

}  // namespace

void train_bilinear_model(const StageContext& c, const TeleclassPipelineOptions& o,
                          const InputLayout& layout) {
  std::optional<LoadedEncoder> loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  LabelledSet set;
  together(c.comm, [&] {
    loaded.emplace(load_encoder(o.model.encoder, torch_device(c.device)));
    tokenizer = load_tokenizer(o.model.encoder);
    set = read_labels(c.folder_of("hierarchy") / "labels.jsonl");
  });
  EmbeddingConfig unit = loaded->model.embedding;
  unit.normalise = true;
  const auto datasets = open_datasets(c, o, *tokenizer);
  const MappedMatrix classes(c.folder_of("encoding") / "classes.h5", "vectors");
  std::vector<const TokenDataset*> pointers;
  for (const auto& dataset : datasets) pointers.push_back(dataset.get());
  std::vector<float> weights;  // of all documents, filled below
  Encoder& encoder = loaded->encoder;
  encoder.train_top_layers(o.teleclass.train_encoder ? o.fine_tune.layers : 0);
  BilinearHead head(classes.view(), BilinearStart::identity,
                    static_cast<std::uint64_t>(o.train.seed), encoder.device());
  ParameterArena arena(
      parameter_groups({{"encoder", o.fine_tune.encoder_rate, trained_parameters(encoder)},
                        {"head", o.fine_tune.head_rate, trained_parameters(head)}},
                       o.train),
      c.comm.size());
  const auto loss = [&](const PackedIds& batch, DropoutSeed seed) {
    const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, encoder.device());
    const MultiLabelBatch labels =
        gather_labels(set.labels, classes.view().rows, batch.documents, encoder.device());
    return LossSum{masked_binary_cross_entropy(
                       head.logits(encoder.embed(packed, unit, training_forward(encoder, o, seed))),
                       labels.targets, labels.mask, o.teleclass.positive_weight,
                       gather_values(weights, batch.documents, encoder.device())),
                   static_cast<double>(batch.size())};
  };
  DocumentTask task(pointers, std::min(o.fine_tune.max_length, unit.max_tokens),
                    tokenizer->cls_id(), tokenizer->sep_id(), loss);
  task.select(set.documents);
  weights.assign(static_cast<std::size_t>(task.documents()), 1);
  std::fill(weights.begin() + datasets.front()->size(), weights.end(),
            static_cast<float>(augmented_weight(set.real, set.generated)));
  Trainer(arena, task, o.train, train_context(c, o)).run();

  const fs::path model = c.folder / "model";
  on_root(c.comm, [&] {
    copy_taxonomy(layout, model);
    save_encoder_folder(model, loaded->encoder, loaded->model.embedding, loaded->model);
    const Matrix embeddings = head.class_embeddings(), interaction = head.interaction();
    write_arrays(model / "gpuhpc" / "head.h5",
                 {{"class_embeddings", embeddings.view()}, {"interaction", interaction.view()}});
    ClassifierSettings settings;
    settings.kind = "bilinear";
    write_settings(model, settings);
    fs::remove_all(c.folder / "generated_tokens");
  });
}

}  // namespace gpuhpc
