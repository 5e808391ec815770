#include "gpuhpc/pipelines/label/taxoclass/backends/pair_model.hpp"

#include <ATen/ops/stack.h>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {

void PairModelStage::check() const { sources.statements.check(); }

void PairModelStage::run(const StageContext& c, const TrainedFiles& out) const {
  const TrainOptions& train = training.trainer.train;
  Taxonomy classes;
  std::unique_ptr<LoadedEncoder> own;
  std::unique_ptr<Tokenizer> tokenizer;
  run_collectively(c.comm, [&] {
    classes = taxonomy.load();
    own = std::make_unique<LoadedEncoder>(encoder.load(torch_device(c.device)));
    tokenizer = load_tokenizer(encoder.path());
  });
  const PairExamples pairs = make_pair_examples(c, sources, classes, *tokenizer);
  std::vector<float> targets;
  for (const PairExample& example : pairs.examples) targets.push_back(example.target);
  const std::vector<std::string> labels = {"not_entailment", "entailment"};
  Encoder& trained = own->encoder;
  trained.train_top_layers(-1);
  ClassificationHead head(new_classifier_config(trained.config(), labels), trained.config(),
                          static_cast<std::uint64_t>(train.seed), trained.device());
  ParameterArena arena(
      parameter_groups({{"encoder", sources.options.encoder_rate, trained_parameters(trained)},
                        {"head", training.encoder.head_rate, trained_parameters(head)}},
                       train),
      c.comm.size());
  const auto entailed = [&](std::span<const std::int64_t> of) {
    const at::Tensor yes = gather_values(targets, of);
    return std::vector{at::stack({yes.neg().add_(1), yes}, 1)};
  };
  const auto loss = [&](const TargetedIds& batch, DropoutSeed seed) {
    const ForwardOptions forward = training_forward(trained, training, seed);
    const PackedTokens packed =
        pack_tokens(batch.token_ids, batch.offsets, trained.device(), batch.segments);
    return LossSum{
        soft_target_cross_entropy(head.logits(trained.first_tokens(packed, forward), forward),
                                  to_device(batch.targets[0], trained.device())),
        static_cast<double>(batch.size())};
  };
  PairTask task(pairs, tokenizer->special().pair, own->model.embedding.max_tokens, loss, entailed);
  Course course = train.course();
  course.epochs = sources.options.epochs;
  Trainer(arena, task, train, train_context(c, training.trainer, out), course).run();
  on_root(c.comm, [&] {
    save_classifier_folder(out.model, trained, head.parameters(), labels, own->model);
  });
}

}  // namespace gpuhpc
