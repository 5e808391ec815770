#include "gpuhpc/pipelines/label/taxoclass/options.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void SimilarityOptions::check() const {
  if (backend == "nli" && nli_model.empty())
    throw usage_error(
        "--taxoclass.similarity nli needs the folder of a cross-encoder: --taxoclass.nli-model "
        "DIR");
}

void StatementOptions::check() const {
  if (hypothesis.find("{}") == std::string::npos)
    throw usage_error("--taxoclass.hypothesis `{}` has no {{}}, the place of the class's name",
                      hypothesis);
}

void declare(config::Section& section, SimilarityOptions& o) {
  section
      .option("similarity", o.backend,
              "what holds documents against classes: the sentence encoder, a cross-encoder's "
              "entailment, or a cross-encoder trained here without labels")
      .one_of({"embedding", "nli", "pair"});
  section
      .option("calibration", o.calibration,
              "embedding: probabilities summed upwards from root-to-leaf paths, or each class's "
              "own cosine")
      .one_of({"paths", "names"});
  section
      .option("nli-model", o.nli_model,
              "nli: Hugging Face folder of a cross-encoder with the label entailment")
      .existing_path();
}

void declare(config::Section& section, EntailmentOptions& o) {
  section.option(
      "full-matrix", o.full_matrix,
      "nli, pair: score every pair of document and class, not only those of the top-down search");
}

void declare(config::Section& section, StatementOptions& o) {
  section.option(
      "hypothesis", o.hypothesis,
      "nli, pair: the sentence that a document should entail, {} being the class's name");
  section
      .option("premise-tokens", o.premise_tokens, "nli, pair: tokens of a document that are read")
      .range(1, 1e6)
      .unit("tokens");
}

void declare(config::Section& section, PairModelOptions& o) {
  section
      .option("pair-examples", o.examples,
              "pair: about so many pairs of texts are learnt, from corpus and taxonomy")
      .range(10, 1e9);
  section.option("pair-epochs", o.epochs, "pair: passes over them").range(1, 1e6);
  section.option("pair-lr", o.encoder_rate, "pair: peak learning rate of the encoder").range(0, 1);
}

void declare(config::Section& section, CoreOptions& o) {
  section.option("positive-confidence", o.positive_confidence,
                 "a core class must be more similar than its rivals, not only reach its median");
  section.option("against-parents", o.against_parents,
                 "parents are rivals of a core class, as siblings are");
}

void declare(config::Section& section, GraphOptions& o) {
  section
      .option("features", o.features,
              "what stands for a class in the graph: its vector, or the mean word embedding of its "
              "name")
      .one_of({"embedding", "words"});
  section.option("graph-hidden", o.hidden, "width of the graph network").range(1, 16384);
  section
      .option("graph-layers", o.layers,
              "layers of the graph network; 0: none, classes stand for themselves")
      .range(0, 16);
  section.option("graph-residual", o.residual,
                 "graph layers add to what they get, and are centred: against over-smoothing");
  section.option("graph-lr", o.rate, "peak learning rate of the graph network").range(0, 1);
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
}

void declare(config::Section& section, SelfTrainingOptions& o) {
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
