#include "gpuhpc/app/options.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void declare_options(config::OptionSet& set, Options& o) {
  TeleclassPipelineOptions& t = o.teleclass;
  config::Section& input = set.section("input", "what is read");
  declare(input, t.input);
  input.option("file", o.files.input, "text of prepare, encode and predict; - is standard input")
      .existing_path();
  config::Section& output = set.section("output", "what is written");
  output.option("file", o.files.output, "result of encode and predict; - is standard output");
  output.option("dir", o.files.output_dir, "folder for the shards of prepare");
  declare(output, t.submission);
  set.section("run", "the run folder")
      .option("dir", o.run_dir, "outputs, ledger, logs and report; an existing one is resumed");
  config::Section& pipeline = set.section("pipeline", "the staged pipeline");
  pipeline.option("method", o.method, "which pipeline").one_of({"teleclass", "taxoclass"});
  pipeline.option("preset", o.preset, "values of every option that you do not give")
      .one_of({"recommended", "paper", "code", "multi-gpu", "fixed"});
  pipeline.option("from", o.from, "first stage to run; earlier ones must be finished");
  pipeline.option("to", o.to, "last stage to run");
  pipeline.option("force", o.force, "stage that runs again although it is finished");
  config::Section& model = set.section("model", "encoders and trained models");
  declare(model, t.model);
  model.option("dir", o.files.model, "finished model/ folder of a run, for predict")
      .existing_path();
  declare(set.section("device", "where it runs"), o.device);
  declare(set.section("prepare", "tokenized shards"), t.shards);
  declare(set.section("infer", "encoding"), t.infer);
  declare(set.section("scoring", "documents against classes"), t.scoring);
  declare(set.section("teleclass", "the six phases"), t.teleclass);
  declare(set.section("taxoclass", "similarity, core classes, graph network, self-training"),
          o.taxoclass);
  declare(set.section("tfidf", "term weights of lexical neighbours"), t.tfidf);
  declare(set.section("neighbours", "nearest documents"), t.neighbours);
  declare(set.section("train", "the trainer"), t.train);
  declare(set.section("train"), t.fine_tune);
  declare(set.section("profile", "where the time of a step goes"), t.profile);
  declare(set.section("parallel", "how the ranks work together"), t.parallel);
  config::Section& decode = set.section("decode", "from scores to labels");
  declare(decode, t.decode);
  decode
      .option("review-below", o.files.review_below,
              "predict marks documents whose best class scores less")
      .range(0, 1);
  declare(set.section("eval", "evaluation and report"), o.eval);
  config::Section& report = set.section("report", "the page that report makes");
  report.option("runs", o.files.report_runs, "run folders with commas between; none: --run.dir");
  report.option(
      "output", o.files.report_page,
      "the page; none: report.html in the run folder, of several runs in the present one");
}

std::vector<Stage> pipeline_stages(const Options& o, const InputLayout& layout) {
  return o.method == "taxoclass" ? taxoclass_stages({o.teleclass, o.taxoclass}, layout)
                                 : teleclass_stages(o.teleclass, layout);
}

void apply_preset(config::OptionSet& set, const Options& options) {
  const auto preset = options.method == "taxoclass" ? taxoclass_preset : teleclass_preset;
  for (const auto& [name, value] : preset(options.preset)) set.set_default(name, value);
}

}  // namespace gpuhpc
