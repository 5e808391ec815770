#include "gpuhpc/app/options.hpp"

#include <sstream>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"

namespace gpuhpc {

void declare(config::Section& section, RunOptions& o) {
  section
      .option("dir", o.dir,
              "folder for outputs, ledger, logs and report; an existing one is resumed")
      .common();
  section
      .option("export", o.export_folder,
              "a new folder for the model of the newest checkpoint of a run that was stopped "
              "(train-embedding, pretrain, train-seq2seq); nothing is trained")
      .execution();
}

void declare(config::Section& section, PipelineOptions& o) {
  section.option("method", o.method, "which pipeline").one_of({"teleclass", "taxoclass"}).common();
  section.option("preset", o.preset, "sets the options that you do not give")
      .one_of({"recommended", "paper", "code", "multi-gpu", "fixed"})
      .common();
  section.option("from", o.from, "first stage to run; earlier ones must be finished");
  section.option("to", o.to, "last stage to run");
  section.option("force", o.force, "stage that runs again although it is finished");
}

void declare(config::Section& section, StageOptions& o) {
  section
      .option("gpus", o.gpus,
              "ranks that run this stage: all of them, each with its GPU or its processors, or 1: "
              "the first alone, while the others wait")
      .one_of({"all", "1"})
      .execution();
}

void declare(config::Section& section, OutputOptions& o) {
  section.option("file", o.file, "result of encode, predict and select; - is standard output")
      .common();
  section.option("dir", o.dir, "folder for the shards of prepare");
  section
      .option("quantize", o.quantize,
              "encode stores vectors in bytes (int8, uint8: 255 steps of each column's range) or "
              "bits (binary, ubinary: above 0), as sentence-transformers does")
      .one_of({"none", "int8", "uint8", "binary", "ubinary"});
  section
      .option("calibration", o.calibration,
              "texts whose vectors give the ranges of int8 and uint8, in a file as --input.file; "
              "none: all vectors are kept until the last is there, and give them")
      .existing_path();
}

void declare(config::Section& section, ReviewOptions& o) {
  section
      .option("review-below", o.below,
              "predict marks documents whose best class is less probable than this")
      .range(0, 1);
}

void declare(config::Section& section, ReportOptions& o) {
  section.option("runs", o.runs, "run folders, separated by commas; none: --run.dir");
  section.option("output", o.page,
                 "the page to write, and its data beside it as .json; none: report.html in the run "
                 "folder, or here for several runs");
}

void declare_options(config::OptionSet& set, Options& o) {
  SharedOptions& s = o.shared;
  LabelOptions& l = o.label;
  set.add("what is read", s.input, s.corpus);
  set.add("what is written", o.output, l.submission);
  set.add("the run folder", o.run);
  set.add("the staged pipeline", o.pipeline, l.adaptation_kind, l.adaptation_texts, l.adaptation);
  set.add_each("one stage of a run, by its name in the log: [stage.encoding]", o.stages);
  set.add("encoders and trained models", s.model, s.pooling, s.prompt, l.class_prompt);
  set.add("where it runs", o.device);
  set.add("tokenized shards", s.shards);
  set.add("encoding", s.infer);
  set.add("documents against classes", l.class_texts, l.scoring.centring, l.scoring.scores,
          l.soft_refinement, l.scoring.smoothing);
  set.add("the six phases", l.teleclass.refinement, l.teleclass.augmentation, l.teleclass.targets,
          l.teleclass.training);
  set.add("similarity, core classes, graph network, self-training", l.taxoclass.similarity,
          l.taxoclass.entailment, l.taxoclass.statements, l.taxoclass.pair, l.taxoclass.cores,
          l.taxoclass.graph, l.taxoclass.self_training);
  set.add("pairs of texts, and what an encoder learns from them", o.embedding.files,
          o.embedding.loss, o.embedding.mixing);
  set.add_each(
      "one of several data sets: files, columns and loss of its own; what is not given is as in "
      "[embedding]",
      o.embedding.datasets);
  set.add("masked-language models", o.pretrain.model, o.pretrain.vocabulary, o.pretrain.masking,
          o.pretrain.short_phase, o.pretrain.mixing, o.pretrain.data);
  set.add("sequence-to-sequence models", o.seq2seq.files, o.seq2seq.model, o.seq2seq.learning,
          o.seq2seq.evaluation);
  set.add("how texts are generated", o.seq2seq.generation);
  set.add("hard negatives", o.embedding.mining);
  set.add("term weights of lexical neighbours", l.scoring.tfidf);
  set.add("nearest documents", l.scoring.neighbours);
  set.add("the trainer", s.training.train, s.fine_tune);
  set.add("how texts reach the trainer", s.training.loader);
  set.add("where the time of a step goes", s.training.profile);
  set.add("how the ranks work together", s.training.parallel);
  set.add("from scores to labels", l.decode, o.review);
  set.add("evaluation and report", o.eval);
  set.add("the page that report makes", o.report);
  set.add("documents to label", o.select);
  set.add("what fits a GPU", o.plan);
}

std::vector<std::vector<std::string>> memory_steps(const std::string& text) {
  std::vector<std::vector<std::string>> steps;
  std::istringstream whole(text);
  for (std::string part; std::getline(whole, part, ';');) {
    std::istringstream words(part);
    std::vector<std::string>& step = steps.emplace_back();
    for (std::string word; words >> word;) {
      if (word.find('=') == std::string::npos)
        throw usage_error(
            "--train.on-out-of-memory: `{}` is not written as section.option=value; several of one "
            "step stand with blanks between them, steps with semicolons",
            word);
      step.push_back("--" + word);
    }
    if (step.empty()) steps.pop_back();
  }
  for (const std::vector<std::string>& step : steps) {
    config::OptionSet set;
    Options options;
    declare_options(set, options);
    try {
      set.parse({}, step);
    } catch (const Error& error) {
      throw usage_error("--train.on-out-of-memory: {}", error.what());
    }
  }
  return steps;
}

Preset plan_preset(const Options& options) {
  switch (options.plan.job_kind()) {
    case PlanJob::embedding:
      return embedding_defaults(options.embedding);
    case PlanJob::pretrain:
      return pretrain_defaults();
    case PlanJob::seq2seq:
      return seq2seq_defaults();
    case PlanJob::generate:
      return {};
    default:
      return labelling_preset(options);
  }
}

Preset labelling_preset(const Options& options) {
  const auto preset = options.pipeline.method == "taxoclass" ? taxoclass_preset : teleclass_preset;
  return preset(options.pipeline.preset, options.label.decode.leaves());
}

}  // namespace gpuhpc
