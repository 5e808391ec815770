#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"

#include <ATen/ops/stack.h>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"
#include "gpuhpc/pipelines/label/replicas.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"
#include "gpuhpc/pipelines/label/training_run.hpp"
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
  const PairExamples pairs = make_pair_examples(c, o, taxonomy, *tokenizer);
  const PairSource source(pairs, tokenizer->pair_template(), own->model.embedding.max_tokens);
  std::vector<float> targets;
  for (const PairExample& example : pairs.examples) targets.push_back(example.target);

  TaxoclassPipelineOptions options = o;
  options.train.encoder_rate = o.taxoclass.pair_rate;
  options.train.epochs = o.taxoclass.pair_epochs;
  const std::vector<std::string> labels = {"not_entailment", "entailment"};
  const ClassifierConfig config = new_classifier_config(own->encoder.config(), labels);
  run_replicas(c, options, *own, [&](const StageContext& replica, LoadedEncoder& model) {
    Encoder& encoder = model.encoder;
    ClassificationHead head(config, encoder.config(), static_cast<std::uint64_t>(o.train.seed),
                            encoder.device());
    ParameterArena arena(
        encoder_and_head(encoder, /*layers=*/-1, trained_parameters(head), options.train),
        replica.comm.size());
    const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
      const ForwardOptions forward = training_forward(encoder, options.train, seed);
      const PackedTokens packed =
          pack_tokens(batch.token_ids, batch.offsets, encoder.device(), batch.segments);
      const at::Tensor entailed = gather_values(targets, batch.documents, encoder.device());
      const at::Tensor wanted = at::stack({entailed.neg().add_(1), entailed}, 1);
      return LossSum{soft_target_cross_entropy(
                         head.logits(encoder.first_tokens(packed, forward), forward), wanted),
                     static_cast<double>(batch.size())};
    };
    TrainingRun run(replica, options, arena, source);
    Trainer trainer(arena, run.learnt(), loss, options.train, options.parallel, replica.comm,
                    run.hooks(), run.between_gpus());
    run.resume(trainer);
    run.finish(trainer, trainer.run());
    if (&model == own.get())
      on_root(c.comm, [&] {
        save_classifier_folder(c.folder / "model", encoder, head.parameters(), labels, model.model);
      });
  });
}

}  // namespace gpuhpc
