#include "gpuhpc/pipelines/label/taxoclass/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, TaxoclassOptions& o) {
  section
      .option("similarity", o.similarity,
              "what holds documents against classes: the sentence encoder, a cross-encoder's "
              "entailment, or a cross-encoder trained here without labels")
      .one_of({"embedding", "nli", "pair"});
  section
      .option("nli-model", o.nli_model,
              "nli: Hugging Face folder of a cross-encoder with the label entailment")
      .existing_path();
  section.option(
      "hypothesis", o.hypothesis,
      "nli, pair: the sentence that a document should entail, {} being the class's name");
  section
      .option("premise-tokens", o.premise_tokens, "nli, pair: tokens of a document that are read")
      .range(1, 1e6)
      .unit("tokens");
  section
      .option("pair-examples", o.pair_examples,
              "pair: about so many pairs of texts are learnt, from corpus and taxonomy")
      .range(10, 1e9);
  section.option("pair-epochs", o.pair_epochs, "pair: passes over them").range(1, 1e6);
  section.option("pair-lr", o.pair_rate, "pair: peak learning rate of the encoder").range(0, 1);
  section.option(
      "full-matrix", o.full_matrix,
      "nli, pair: score every pair of document and class, not only those of the top-down search");
  section
      .option("calibration", o.calibration,
              "embedding: probabilities summed upwards from root-to-leaf paths, or each class's "
              "own cosine")
      .one_of({"paths", "names"});
  section.option("positive-confidence", o.positive_confidence,
                 "a core class must be more similar than its rivals, not only reach its median");
  section.option("against-parents", o.against_parents,
                 "parents are rivals of a core class, as siblings are");
  section
      .option("features", o.features,
              "what stands for a class in the graph: its vector, or the mean word embedding of its "
              "name")
      .one_of({"embedding", "words"});
  section.option("graph-hidden", o.graph_hidden, "width of the graph network").range(1, 16384);
  section
      .option("graph-layers", o.graph_layers,
              "layers of the graph network; 0: none, classes stand for themselves")
      .range(0, 16);
  section.option("graph-residual", o.graph_residual,
                 "graph layers add to what they get, and are centred: against over-smoothing");
  section.option("graph-lr", o.graph_rate, "peak learning rate of the graph network").range(0, 1);
  section.option("scale", o.scale, "factor of the logits").range(0.01, 1000);
  section
      .option("link", o.link,
              "from logits to probabilities; sigmoid-exp as published, never below one half, so "
              "that the classifier can rank alone")
      .one_of({"sigmoid", "sigmoid-exp"});
  section
      .option("held-out", o.held_out,
              "share of the documents whose silver labels are not learnt but judge self-training")
      .range(0, .5);
  section.option("self-training-batches", o.batches, "batches of self-training at most; 0: none")
      .range(0, 1e9);
  section.option("refresh", o.refresh, "batches after which the target distribution is made anew")
      .range(1, 1e9)
      .unit("batches");
  section.option("self-training-encoder-lr", o.encoder_rate, "rate of the encoder in self-training")
      .range(0, 1);
  section.option("self-training-head-lr", o.head_rate, "rate of everything else in self-training")
      .range(0, 1);
  section
      .option("labels-from", o.labels_from,
              "what labels new text: the sentence encoder's similarity, the classifier, or both, "
              "smoothed with the document's neighbours")
      .one_of({"similarity", "classifier", "ensemble"});
}

}  // namespace gpuhpc
