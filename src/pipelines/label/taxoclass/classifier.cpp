#include "gpuhpc/pipelines/label/taxoclass/classifier.hpp"

#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {

void GraphClassifierStage::run(const StageContext& c, const GraphModelFiles& out) const {
  const GraphTask model(c, inputs, training, encoder);
  ClassGraphHead head = model.head();
  learn_silver_labels(c, model, head, out);
  on_root(c.comm, [&] { write_graph_model(model, head, out); });
}

}  // namespace gpuhpc
