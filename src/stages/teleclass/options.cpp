#include "gpuhpc/stages/teleclass/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, TeleclassOptions& o) {
  section.option("class-texts", o.class_texts, "texts that stand for a class: five templates, its name, or its keywords").one_of({"five", "name", "keywords"});
  section.option("descriptions", o.descriptions, "add the class description to its texts when there is one");
  section.option("centring", o.centring, "share of the mean taken off document and class vectors").range(0, 1);
  section.option("refinement", o.refinement, "how documents and classes are matched").one_of({"soft", "paper", "code", "multi-gpu"});
  section.option("temperature", o.temperature, "factor of cosines in the softmax").range(0.01, 1000);
  section.option("csls", o.csls, "share of a class's hubness taken off its scores").range(0, 2);
  section.option("lexical", o.lexical, "weight of class-name words found in the document").range(0, 100);
  section.option("name-votes", o.name_votes, "weight of the class name against its documents in soft refinement; 0 switches refinement off").range(0, 1000);
  section.option("smoothing-rounds", o.smoothing_rounds, "rounds of neighbour smoothing; 0 switches it off").range(0, 100);
  section.option("enrichment-terms", o.enrichment_terms, "corpus terms kept a class").range(1, 1000).unit("terms");
  section.option("augmentation", o.augmentation, "extra training texts: from the input's generated documents, pseudo-documents, none; auto: generated if given, else pseudo")
      .one_of({"auto", "generated", "pseudo", "none"});
  section.option("augment-below", o.augment_below, "classes with fewer documents get pseudo-documents").range(0, 1e9).unit("documents");
  section.option("augment-documents", o.augment_documents, "pseudo-documents of such a class").range(1, 10000).unit("documents");
  section.option("targets", o.targets, "what the student learns: sharpened posteriors (F^2 over class mass), or the posterior itself").one_of({"sharpened", "posterior"});
  section.option("head", o.head, "what is trained: a student on soft targets, a bilinear head, or nothing").one_of({"student", "bilinear", "none"});
  section.option("train-encoder", o.train_encoder, "fine-tune the encoder under the bilinear head");
  section.option("positive-weight", o.positive_weight, "weight of positive labels in the bilinear head's loss").range(0.01, 1000);
}

}  // namespace gpuhpc
