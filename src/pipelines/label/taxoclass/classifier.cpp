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
  const at::Device device = model.encoder->encoder.device();
  const auto wanted = [&](std::span<const std::int64_t> of) {
    const MultiLabelBatch labels = gather_labels(model.silver.labels, model.taxonomy.size(), of);
    return std::vector{labels.targets, labels.mask};
  };
  const auto loss = [&](const TargetedIds& batch, DropoutSeed seed) {
    return LossSum{masked_binary_cross_entropy(model.logits(head, batch, seed),
                                               to_device(batch.targets[0], device),
                                               to_device(batch.targets[1], device)),
                   static_cast<double>(batch.size())};
  };
  DocumentTask task = model.learnt(/*all=*/false, loss, wanted);
  Trainer(arena, task, training.trainer.train, train_context(c, training.trainer, out)).run();
  on_root(c.comm, [&] { write_graph_model(model, head, out); });
}

}  // namespace gpuhpc
