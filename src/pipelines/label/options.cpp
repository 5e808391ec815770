#include "gpuhpc/pipelines/label/options.hpp"

#include <fmt/format.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/labels/decoding.hpp"

namespace gpuhpc {

void declare(config::Section& section, AdaptationKindOption& o) {
  section
      .option("adapt", o.value,
              "what the encoder learns from the training texts before it encodes them: nothing; "
              "the rest of a text from its first sentence (sentences); the same, and forgotten "
              "where texts that name their class find it less well than before (auto, of the "
              "presets recommended and fixed); a text from one that is near by words and by "
              "vectors (neighbours); both; or masked words (mlm)")
      .one_of({"none", "auto", "sentences", "neighbours", "both", "mlm"})
      .common();
}

void declare(config::Section& section, AdaptationTextsOption& o) {
  section
      .option("adapt-texts", o.most,
              "it learns from so many texts at most, spread evenly over the corpus; 0: from all")
      .range(0, 1e12);
}

void declare(config::Section& section, AdaptationOptions& o) {
  section.option("adapt-epochs", o.epochs, "passes over the training texts").range(1, 1000);
  section
      .option("adapt-batch", o.batch,
              "pairs per update there, over all ranks: each has the texts of the others as "
              "negatives (mlm: "
              "texts)")
      .range(2, 1e12)
      .unit("pairs");
  section
      .option("adapt-lr", o.rate,
              "learning rate of the encoder there, of --train.base-batch pairs; all layers learn")
      .range(0, 1);
}

void declare(config::Section& section, ClassTextOptions& o) {
  section
      .option("class-texts", o.kind,
              "texts that stand for a class: five templates, its name, or its keywords")
      .one_of({"five", "name", "keywords"});
  section.option("descriptions", o.descriptions,
                 "add the class description to its texts when there is one");
}

void declare(config::Section& section, ClassPromptOption& option) {
  section.option("class-prompt", option.given,
                 "the same before the texts of classes, in run: a text, a name, \"\" or auto");
}

void declare(config::Section& section, CentringOptions& o) {
  section
      .option("centring", o.share,
              "share of the mean taken off document and class vectors, at least: where all cosines "
              "are large, what leaves a quarter of their spread; 0: none")
      .range(0, 1);
}

std::pair<std::string, std::string> temperature_for(double expected_leaves) {
  const double temperature = ScoringOptions{}.temperature / flatness(expected_leaves);
  return {"scoring.temperature", fmt::format("{:.4g}", temperature)};
}

void declare(config::Section& section, ScoringOptions& o) {
  section
      .option("temperature", o.temperature,
              "factor of cosines in the softmax; the presets recommended and fixed divide theirs "
              "by the fourth root of decode.expected-leaves")
      .range(0.01, 1000);
  section.option("csls", o.csls, "share of a class's hubness taken off its scores").range(0, 2);
  section.option("lexical", o.lexical, "weight of class-name words found in the document")
      .range(0, 100);
}

void declare(config::Section& section, SoftRefinementOptions& o) {
  section
      .option("name-votes", o.name_votes,
              "weight of the class name against its documents in soft refinement; 0 switches "
              "refinement off")
      .range(0, 1000);
  section
      .option("csls-fit", o.csls_fit,
              "how far scoring.csls moves to the share under which texts that hold the whole name "
              "of one class are likeliest; less far where they are few; 0, or csls 0: not at all")
      .range(0, 1);
}

void declare(config::Section& section, SmoothingOptions& o) {
  section.option("smoothing-rounds", o.rounds, "rounds of neighbour smoothing; 0 switches it off")
      .range(0, 100);
}

void declare(config::Section& section, ExpectedLeavesOption& o) {
  section.option("expected-leaves", o.value, "");
}

void declare(config::Section& section, RefinementOptions& o) {
  section.option("refinement", o.kind, "how documents and classes are matched")
      .one_of({"soft", "paper", "code", "multi-gpu"});
  section.option("enrichment-terms", o.enrichment_terms, "corpus terms kept per class")
      .range(1, 1000)
      .unit("terms");
}

void declare(config::Section& section, AugmentationOptions& o) {
  section
      .option("augmentation", o.kind,
              "extra training texts: from the input's generated documents, pseudo-documents, none; "
              "auto: generated if given, else pseudo")
      .one_of({"auto", "generated", "pseudo", "none"});
  section.option("augment-below", o.below, "classes with fewer documents get pseudo-documents")
      .range(0, 1e9)
      .unit("documents");
  section.option("augment-documents", o.documents, "pseudo-documents of such a class")
      .range(1, 10000)
      .unit("documents");
}

void declare(config::Section& section, TargetOptions& o) {
  section
      .option("targets", o.kind,
              "what the student learns: sharpened posteriors (F^2 over class mass), the posterior "
              "itself, or core classes, each learnt by itself (the preset recommended where "
              "decode.expected-leaves is 2 or more)")
      .one_of({"sharpened", "posterior", "cores"});
}

void declare(config::Section& section, TrainedHeadOptions& o) {
  section
      .option("head", o.head,
              "what is trained: a student on soft targets, a bilinear head, or nothing")
      .one_of({"student", "bilinear", "none"});
  section.option("train-encoder", o.train_encoder, "fine-tune the encoder under the bilinear head");
  section
      .option("positive-weight", o.positive_weight,
              "weight of positive labels in the bilinear head's loss")
      .range(0.01, 1000);
}

void TaxoclassOptions::check() const {
  if (similarity.backend == "nli" && similarity.nli_model.empty())
    throw usage_error(
        "--taxoclass.similarity nli needs the folder of a cross-encoder: --taxoclass.nli-model "
        "DIR");
  if (cores.against_parents && similarity.sums_paths())
    throw usage_error(
        "--taxoclass.against-parents: with --taxoclass.similarity embedding a parent's probability "
        "is the sum of its children's, so that no child could win; give "
        "--taxoclass.against-parents "
        "false or --taxoclass.calibration names");
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
  section
      .option("similarity-batch", o.batch,
              "nli, pair: pairs scored at once at most; 0: --infer.batch counts")
      .range(0, 1 << 30)
      .unit("pairs")
      .execution();
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
