#include "gpuhpc/plan/options.hpp"

#include <map>

namespace gpuhpc {

PlanJob PlanOptions::job_kind() const {
  static const std::map<std::string, PlanJob> kinds{
      {"run", PlanJob::classifier},    {"train-embedding", PlanJob::embedding},
      {"pretrain", PlanJob::pretrain}, {"train-seq2seq", PlanJob::seq2seq},
      {"encode", PlanJob::encode},     {"predict", PlanJob::encode},
      {"generate", PlanJob::generate}};
  return kinds.at(job);
}

void declare(config::Section& section, PlanOptions& o) {
  constexpr double many = 1e9;
  section
      .option("gpu", o.gpu,
              "what plan plans for: v100-16, a100-40, rtx3080-10, rtx4090-24, a6000-48, h100-80, "
              "h200-141, cpu, or auto: what this machine has")
      .common();
  section.option("job", o.job, "the command that is planned")
      .one_of(
          {"run", "train-embedding", "pretrain", "train-seq2seq", "encode", "predict", "generate"})
      .common();
  section
      .option("model", o.model,
              "folder, config.json or published name (t5-base, mt5-large, bert-base ..); none: "
              "that of the job's own options")
      .common();
  section
      .option("global-batch", o.global_batch,
              "documents per update, over all ranks; 0: --train.batch")
      .range(0, many);
  section
      .option("length", o.length,
              "tokens of a document or source, the longest that are cut to; 0: the job's own limit")
      .range(0, 1 << 20)
      .unit("tokens");
  section.option("target-length", o.target_length, "likewise of a target, or of what is generated")
      .range(0, 1 << 20)
      .unit("tokens");
  section.option("ranks", o.ranks, "GPUs, one a rank; 0: as many as were started")
      .range(0, 1 << 16);
  section.option("candidates", o.candidates, "ways of computing that are shown, best first")
      .range(1, 100);
  section.option("json", o.json, "file for the whole plan");
  section.option("config", o.config,
                 "file for the best candidate: all options of the job, ready for --config");
  section.option("calibration", o.calibration,
                 "file of factors that measured trials left; plan reads it, calibrate adds to it");
  section.option("calibrate", o.calibrate,
                 "a few updates on made-up texts, which save nothing, are measured; their factors "
                 "go to --plan.calibration");
}

}  // namespace gpuhpc
