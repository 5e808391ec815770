#include "gpuhpc/pipelines/label/options.hpp"

namespace gpuhpc {

void declare(config::Section& section, ClassTextOptions& o) {
  section
      .option("class-texts", o.kind,
              "texts that stand for a class: five templates, its name, or its keywords")
      .one_of({"five", "name", "keywords"});
  section.option("descriptions", o.descriptions,
                 "add the class description to its texts when there is one");
}

void declare(config::Section& section, CentringOptions& o) {
  section.option("centring", o.share, "share of the mean taken off document and class vectors")
      .range(0, 1);
}

void declare(config::Section& section, ScoringOptions& o) {
  section.option("temperature", o.temperature, "factor of cosines in the softmax")
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
}

void declare(config::Section& section, SmoothingOptions& o) {
  section.option("smoothing-rounds", o.rounds, "rounds of neighbour smoothing; 0 switches it off")
      .range(0, 100);
}

void declare(config::Section& section, FineTuneOptions& o) {
  constexpr double many = 1e12;
  section.option("encoder-lr", o.encoder_rate, "peak learning rate of the encoder").range(0, 1);
  section
      .option("head-lr", o.head_rate,
              "peak learning rate of the head (class vectors, bilinear matrix)")
      .range(0, 1);
  section
      .option("max-length", o.max_length,
              "documents are cut here for training, [CLS] and [SEP] included")
      .range(3, many)
      .unit("tokens")
      .common();
  section
      .option("layers", o.layers,
              "top encoder layers that learn (0: the head alone, -1: everything, embeddings too)")
      .range(-1, 1000);
  section.option("dropout", o.dropout, "dropout in the encoder").range(0, .9);
}

void declare(config::Section& section, SeedOption& o) { section.option("seed", o.value, ""); }

void declare(config::Section& section, ExpectedLeavesOption& o) {
  section.option("expected-leaves", o.value, "");
}

void declare(config::Section& section, LabelLimits& o) {
  section.option("minimum", o.minimum, "");
  section.option("maximum", o.maximum, "");
}

}  // namespace gpuhpc
