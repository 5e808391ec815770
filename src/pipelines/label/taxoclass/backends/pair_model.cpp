#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"

#include <ATen/ops/stack.h>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"
#include "gpuhpc/pipelines/label/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

void run_pair_model(const StageContext& c, const TaxoclassPipelineOptions& o,
                    const InputLayout& layout) {
  Taxonomy taxonomy;
  std::unique_ptr<LoadedEncoder> own;
  std::unique_ptr<Tokenizer> tokenizer;
  together(c.comm, [&] {
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
    own = std::make_unique<LoadedEncoder>(load_encoder(o.model.encoder, torch_device(c.device)));
    tokenizer = load_tokenizer(o.model.encoder);
  });
  const PairExamples pairs = make_pair_examples(c, o, layout, taxonomy, *tokenizer);
  std::vector<float> targets;
  for (const PairExample& example : pairs.examples) targets.push_back(example.target);
  const std::vector<std::string> labels = {"not_entailment", "entailment"};
  Encoder& encoder = own->encoder;
  encoder.train_top_layers(-1);
  ClassificationHead head(new_classifier_config(encoder.config(), labels), encoder.config(),
                          static_cast<std::uint64_t>(o.train.seed), encoder.device());
  ParameterArena arena(
      parameter_groups({{"encoder", o.taxoclass.pair_rate, trained_parameters(encoder)},
                        {"head", o.fine_tune.head_rate, trained_parameters(head)}},
                       o.train),
      c.comm.size());
  const auto loss = [&](const PackedIds& batch, DropoutSeed seed) {
    const ForwardOptions forward = training_forward(encoder, o, seed);
    const PackedTokens packed =
        pack_tokens(batch.token_ids, batch.offsets, encoder.device(), batch.segments);
    const at::Tensor entailed = gather_values(targets, batch.documents, encoder.device());
    const at::Tensor wanted = at::stack({entailed.neg().add_(1), entailed}, 1);
    return LossSum{soft_target_cross_entropy(
                       head.logits(encoder.first_tokens(packed, forward), forward), wanted),
                   static_cast<double>(batch.size())};
  };
  PairTask task(pairs, tokenizer->pair_template(), own->model.embedding.max_tokens, loss);
  Course course = o.train.course();
  course.epochs = o.taxoclass.pair_epochs;
  Trainer(arena, task, o.train, train_context(c, o), course).run();
  on_root(c.comm, [&] {
    save_classifier_folder(c.folder / "model", encoder, head.parameters(), labels, own->model);
  });
}

}  // namespace gpuhpc
