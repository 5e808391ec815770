#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"

#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/replicas.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"
#include "gpuhpc/pipelines/label/training_run.hpp"

namespace gpuhpc {

void run_classifier(const StageContext& c, const TaxoclassPipelineOptions& o,
                    const InputLayout& layout) {
  const GraphTask task(c, o, layout, o.model.encoder);
  const DocumentSource source = task.source(/*all=*/false);
  TrainedHead trained;
  run_replicas(c, o, *task.encoder, [&](const StageContext& replica, LoadedEncoder& model) {
    Encoder& encoder = model.encoder;
    ClassGraphHead head = task.head(encoder.device());
    ParameterArena arena(task.parameters(encoder, head, o.train.encoder_rate, o.train.head_rate,
                                         o.taxoclass.graph_rate),
                         replica.comm.size());
    const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
      const MultiLabelBatch labels = gather_labels(task.silver.labels, task.taxonomy.size(),
                                                   batch.documents, encoder.device());
      return LossSum{masked_binary_cross_entropy(task.logits(encoder, head, batch, o.train, seed),
                                                 labels.targets, labels.mask),
                     static_cast<double>(batch.size())};
    };
    TrainingRun run(replica, o, arena, source);
    Trainer trainer(arena, run.learnt(), loss, o.train, o.parallel, replica.comm, run.hooks(),
                    run.between_gpus());
    run.resume(trainer);
    run.finish(trainer, trainer.run());
    if (&model == task.encoder.get())
      trained = {head.class_vectors(), head.bias(), head_parameters(head)};
  });
  write_graph_model(c, task, layout, trained, "classifier");
}

}  // namespace gpuhpc
