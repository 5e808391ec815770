#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"

namespace gpuhpc {

void GraphClassifierStage::run(const StageContext& c, const GraphModelFiles& out) const {
  const GraphTask model(c, inputs, training, encoder);
  ClassGraphHead head = model.head();
  ParameterArena arena(model.parameters(head, training.encoder.encoder_rate,
                                        training.encoder.head_rate, inputs.graph.rate),
                       c.comm.size());
  DocumentTask task = model.learnt(/*all=*/false, [&](const PackedIds& batch, DropoutSeed seed) {
    const MultiLabelBatch labels = gather_labels(model.silver.labels, model.taxonomy.size(),
                                                 batch.documents, model.encoder->encoder.device());
    return LossSum{
        masked_binary_cross_entropy(model.logits(head, batch, seed), labels.targets, labels.mask),
        static_cast<double>(batch.size())};
  });
  Trainer(arena, task, training.trainer.train, train_context(c, training.trainer, out)).run();
  on_root(c.comm, [&] { write_graph_model(model, head, out); });
}

}  // namespace gpuhpc
