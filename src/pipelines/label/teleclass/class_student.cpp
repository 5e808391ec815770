#include "gpuhpc/pipelines/label/teleclass/class_student.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/pipelines/label/taxoclass/ensemble.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"
#include "gpuhpc/pipelines/model_manifest.hpp"

namespace gpuhpc {

void ClassStudentStage::run(const StageContext& c, const GraphModelFiles& out) const {
  // TaxoClass's classifier without its graph, and nothing held out for its self-training.
  const GraphInputs inputs{
      taxonomy, encoding, cores, {.layers = 0, .held_out = 0}, scoring.centring};
  const GraphTask task(c, inputs, training, encoder);
  ClassGraphHead head = task.head();
  learn_silver_labels(c, task, head, out);
  on_root(c.comm, [&] { write_graph_model(task, head, out); });
  write_ensemble(c, {encoding, posterior, infer, scoring}, encoder, corpus.is_test,
                 leaf_odds(task.taxonomy, head.class_vectors().view(), head.bias()), out.model);
  on_root(c.comm, [&] { seal_model(out.model); });
}

}  // namespace gpuhpc
