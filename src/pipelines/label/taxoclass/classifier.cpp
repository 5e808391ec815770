#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/replicas.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"
#include "gpuhpc/pipelines/label/training_run.hpp"

namespace gpuhpc {

void GraphClassifierStage::run(const StageContext& c, const GraphModelFiles& out) const {
  const TrainOptions& train = training.train;
  const GraphTask task(c, inputs, train, encoder.path);
  const DocumentSource source = task.source(/*all=*/false);
  TrainedHead trained;
  run_replicas(
      c, training.parallel, encoder.path, *task.encoder,
      [&](const StageContext& replica, LoadedEncoder& model) {
        Encoder& trained_encoder = model.encoder;
        ClassGraphHead head = task.head(trained_encoder.device());
        ParameterArena arena(task.parameters(trained_encoder, head, train.encoder_rate,
                                             train.head_rate, inputs.graph.rate),
                             replica.comm.size());
        const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
          const MultiLabelBatch labels = gather_labels(task.silver.labels, task.taxonomy.size(),
                                                       batch.documents, trained_encoder.device());
          return LossSum{
              masked_binary_cross_entropy(task.logits(trained_encoder, head, batch, train, seed),
                                          labels.targets, labels.mask),
              static_cast<double>(batch.size())};
        };
        TrainingRun beside(replica, training, arena, source);
        Trainer trainer(arena, beside.learnt(), loss, train, training.parallel, replica.comm,
                        beside.hooks(), beside.between_gpus());
        beside.resume(trainer);
        beside.finish(trainer, trainer.run(), out);
        if (&model == task.encoder.get())
          trained = {head.class_vectors(), head.bias(), head_parameters(head)};
      });
  on_root(c.comm, [&] { write_graph_model(task, trained, out); });
}

}  // namespace gpuhpc
