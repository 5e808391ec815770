#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"

#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"

namespace gpuhpc {

void run_classifier(const StageContext& c, const TaxoclassPipelineOptions& o,
                    const InputLayout& layout) {
  const GraphTask model(c, o, layout, o.model.encoder);
  ClassGraphHead head = model.head();
  ParameterArena arena(model.parameters(head, o.fine_tune.encoder_rate, o.fine_tune.head_rate,
                                        o.taxoclass.graph_rate),
                       c.comm.size());
  DocumentTask task = model.learnt(/*all=*/false, [&](const PackedIds& batch, DropoutSeed seed) {
    const MultiLabelBatch labels = gather_labels(model.silver.labels, model.taxonomy.size(),
                                                 batch.documents, model.encoder->encoder.device());
    return LossSum{
        masked_binary_cross_entropy(model.logits(head, batch, seed), labels.targets, labels.mask),
        static_cast<double>(batch.size())};
  });
  Trainer(arena, task, o.train, train_context(c, o)).run();
  write_graph_model(c, model, layout, {head.class_vectors(), head.bias(), head_parameters(head)},
                    "classifier");
}

}  // namespace gpuhpc
