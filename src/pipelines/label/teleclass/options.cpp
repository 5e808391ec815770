#include "gpuhpc/pipelines/label/teleclass/options.hpp"

namespace gpuhpc {

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
              "what the student learns: sharpened posteriors (F^2 over class mass), or the "
              "posterior itself")
      .one_of({"sharpened", "posterior"});
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

}  // namespace gpuhpc
