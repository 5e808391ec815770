#include "gpuhpc/infer/generate_options.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void GenerateOptions::check() const {
  if (sample && beams > 1)
    throw usage_error(
        "--generate.sample true draws one text, --generate.beams {} searches for the best; give "
        "--generate.beams 1 or leave --generate.sample out",
        beams);
  const GenerateOptions usual;
  if (!sample && (temperature != usual.temperature || top_k != usual.top_k || top_p != usual.top_p))
    throw usage_error(
        "--generate.temperature, top-k and top-p shape what is drawn, and nothing is: give "
        "--generate.sample true and --generate.beams 1, or leave them out");
  if (min_length > max_length)
    throw usage_error("--generate.min-length {} is above --generate.max-length {}", min_length,
                      max_length);
}

void declare(config::Section& section, GenerateOptions& options) {
  section.option("beams", options.beams, "texts that are followed at once; 1: greedy, or sampling")
      .range(1, 64)
      .common();
  section.option("max-length", options.max_length, "new tokens at most, the end's included")
      .range(1, 1 << 16)
      .unit("tokens")
      .common();
  section.option("min-length", options.min_length, "new tokens before a text may end")
      .range(0, 1 << 16)
      .unit("tokens");
  section
      .option("length-penalty", options.length_penalty,
              "beams: scores are divided by the length to this power; above 0 favours long texts")
      .range(-100, 100);
  section
      .option("early-stopping", options.early_stopping,
              "beams, once as many texts are finished: true ends; false ends unless a running one "
              "would be better at its present length; never unless it could at any")
      .one_of({"false", "true", "never"});
  section
      .option("repetition-penalty", options.repetition_penalty,
              "above 1: words that are in the text already become less probable")
      .range(.01, 100);
  section
      .option("no-repeat-ngram", options.no_repeat_ngram,
              "no n-gram of so many tokens comes twice (0: any may)")
      .range(0, 1 << 10);
  section.option("sample", options.sample,
                 "draw each token by its probability; needs --generate.beams 1");
  section.option("temperature", options.temperature, "sampling: scores are divided by it")
      .range(.01, 100);
  section.option("top-k", options.top_k, "sampling: only the so many most probable (0: all)")
      .range(0, 1e9);
  section
      .option("top-p", options.top_p,
              "sampling: only the most probable that together have this probability")
      .range(.0001, 1);
  section
      .option("seed", options.seed,
              "sampling: of the draws, which depend on it and the document's number alone")
      .range(0, 1e12);
}

}  // namespace gpuhpc
