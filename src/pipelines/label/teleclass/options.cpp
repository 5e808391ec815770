#include "gpuhpc/pipelines/label/teleclass/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, TeleclassOptions& o) {
  section.option("refinement", o.refinement, "how documents and classes are matched")
      .one_of({"soft", "paper", "code", "multi-gpu"});
  section.option("enrichment-terms", o.enrichment_terms, "corpus terms kept a class")
      .range(1, 1000)
      .unit("terms");
  section
      .option("augmentation", o.augmentation,
              "extra training texts: from the input's generated documents, pseudo-documents, none; "
              "auto: generated if given, else pseudo")
      .one_of({"auto", "generated", "pseudo", "none"});
  section
      .option("augment-below", o.augment_below, "classes with fewer documents get pseudo-documents")
      .range(0, 1e9)
      .unit("documents");
  section.option("augment-documents", o.augment_documents, "pseudo-documents of such a class")
      .range(1, 10000)
      .unit("documents");
  section
      .option("targets", o.targets,
              "what the student learns: sharpened posteriors (F^2 over class mass), or the "
              "posterior itself")
      .one_of({"sharpened", "posterior"});
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
