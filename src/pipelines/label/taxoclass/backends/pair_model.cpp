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

void PairModelStage::check() const { statements.check(); }

void PairModelStage::run(const StageContext& c, const TrainedFiles& out) const {
  Taxonomy classes;
  std::unique_ptr<LoadedEncoder> own;
  std::unique_ptr<Tokenizer> tokenizer;
  together(c.comm, [&] {
    classes = taxonomy.load();
    own = std::make_unique<LoadedEncoder>(load_encoder(encoder.path, torch_device(c.device)));
    tokenizer = load_tokenizer(encoder.path);
  });
  const PairExamples pairs = make_pair_examples(c, *this, classes, *tokenizer);
  const PairSource source(pairs, tokenizer->special().pair, own->model.embedding.max_tokens);
  std::vector<float> targets;
  for (const PairExample& example : pairs.examples) targets.push_back(example.target);

  TrainingOptions own_training = training;
  TrainOptions& train = own_training.train;
  train.encoder_rate = options.encoder_rate;
  train.epochs = options.epochs;
  const std::vector<std::string> labels = {"not_entailment", "entailment"};
  const ClassifierConfig config = new_classifier_config(own->encoder.config(), labels);
  run_replicas(
      c, training.parallel, encoder.path, *own,
      [&](const StageContext& replica, LoadedEncoder& model) {
        Encoder& trained = model.encoder;
        ClassificationHead head(config, trained.config(), static_cast<std::uint64_t>(train.seed),
                                trained.device());
        ParameterArena arena(
            encoder_and_head(trained, /*layers=*/-1, trained_parameters(head), train),
            replica.comm.size());
        const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
          const ForwardOptions forward = training_forward(trained, train, seed);
          const PackedTokens packed =
              pack_tokens(batch.token_ids, batch.offsets, trained.device(), batch.segments);
          const at::Tensor entailed = gather_values(targets, batch.documents, trained.device());
          const at::Tensor wanted = at::stack({entailed.neg().add_(1), entailed}, 1);
          return LossSum{soft_target_cross_entropy(
                             head.logits(trained.first_tokens(packed, forward), forward), wanted),
                         static_cast<double>(batch.size())};
        };
        TrainingRun beside(replica, own_training, arena, source);
        Trainer trainer(arena, beside.learnt(), loss, train, training.parallel, replica.comm,
                        beside.hooks(), beside.between_gpus());
        beside.resume(trainer);
        beside.finish(trainer, trainer.run(), out);
        if (&model == own.get())
          on_root(c.comm, [&] {
            save_classifier_folder(out.model, trained, head.parameters(), labels, model.model);
          });
      });
}

}  // namespace gpuhpc
