#include <fmt/ranges.h>

#include <filesystem>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/plan_files.hpp"
#include "gpuhpc/app/plan_trial.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/device/gpu.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"
#include "gpuhpc/report/terminal.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr double gib = 1 << 30;
GpuKind chosen_kind(const CommandContext& c) {
  const std::string& name = c.options.plan.gpu;
  if (name == "cpu" || (name == "auto" && !c.device.cuda)) return this_processor(c.device.threads);
  if (name != "auto") return gpu_kind(name);
  const GpuFacts gpu = query_gpu(c.device.index);
  return gpu_like(gpu.name, gpu.memory);
}

// A new model's word table is as long as its vocabulary.
std::int64_t tokenizer_rows(const Options& o) {
  return fs::exists(o.shared.model.encoder)
             ? load_tokenizer(o.shared.model.encoder)->vocabulary_size()
             : 0;
}

PlannedModel chosen_model(const Options& o) {
  const PlanJob job = o.plan.job_kind();
  std::string name = o.plan.model;
  std::int64_t vocabulary = 0;
  if (name.empty() && job == PlanJob::pretrain) {
    name = o.pretrain.model.model;
    if (o.pretrain.model.is_size())
      vocabulary = o.pretrain.vocabulary.size > 0 ? o.pretrain.vocabulary.size : tokenizer_rows(o);
  } else if (name.empty() && job == PlanJob::seq2seq) {
    name = o.seq2seq.model.model;
    if (o.seq2seq.model.is_size()) name = "t5-" + name, vocabulary = tokenizer_rows(o);
  } else if (name.empty()) {
    name = job == PlanJob::generate || o.plan.job == "predict" ? o.shared.model.dir
                                                               : o.shared.model.encoder;
  }
  if (name.empty())
    throw usage_error("--plan.model is missing; name a folder or a published model");
  PlannedModel model = planned_model(name, vocabulary);
  const bool wants_t5 = job == PlanJob::seq2seq || job == PlanJob::generate;
  if (wants_t5 != model.is_t5())
    throw usage_error("--plan.job {} is not for {}, which is {}", o.plan.job, name,
                      model.is_t5() ? "a T5; give train-seq2seq or generate"
                                    : "an encoder; give run, train-embedding, pretrain or encode");
  return model;
}

PlannedWork work_of(const CommandContext& c, const PlannedModel& model, bool cuda, int ranks) {
  const Options& o = c.options;
  PlannedWork work =
      planned_training(o.plan.job_kind(), model, o.shared.fine_tuning(), cuda, ranks);
  // These are tried; request_of says which.
  work.precision = PlannedWork().precision, work.checkpointing = work.zero1 = false;
  work.masked = o.pretrain.masking.share;
  work.label_smoothing = work.job == PlanJob::seq2seq ? o.seq2seq.learning.label_smoothing : 0;
  if (work.job == PlanJob::embedding) {
    // Without files: a plan is made before there are any.
    std::vector<PairDataset> datasets;
    for (const auto& [name, set] : o.embedding.datasets)
      datasets.push_back({name, set.weight, set.files, set.loss});
    if (datasets.empty()) datasets.push_back({"", 1, o.embedding.files, o.embedding.loss});
    plan_rows(datasets, work);
  }
  work.beams = o.seq2seq.generation.beams;
  work.threads = c.device.threads;
  return work;
}

std::int64_t own_length(const Options& o, const PlannedModel& model) {
  if (o.plan.length > 0) return o.plan.length;
  if (model.is_t5()) return o.seq2seq.learning.source_length;
  const std::int64_t most = model.encoder().max_tokens(), own = o.plan.job_kind() == PlanJob::encode
                                                                    ? o.shared.infer.max_length
                                                                    : o.shared.fine_tune.max_length;
  return own > 0 ? std::min(own, most) : most;
}

PlanRequest request_of(const CommandContext& c) {
  const Options& o = c.options;
  const TrainingOptions& training = o.shared.training;
  PlanRequest r;
  r.model = chosen_model(o);
  r.gpu = chosen_kind(c);
  const bool cuda = r.gpu.sm > 0;
  const int ranks = o.plan.ranks > 0 ? static_cast<int>(o.plan.ranks) : c.comm.size();
  r.work = work_of(c, r.model, cuda, ranks);
  r.global_batch =
      o.plan.global_batch > 0 ? o.plan.global_batch : training.train.global_batch(ranks);
  r.length = own_length(o, r.model);
  if (!r.model.is_t5() && r.length > r.model.encoder().max_tokens())
    throw usage_error("--plan.length {}: {} has {} positions", r.length, r.model.name,
                      r.model.encoder().max_tokens());
  if (o.plan.global_batch == 0 && training.train.batch_tokens > 0)
    r.global_batch =
        std::max<std::int64_t>(1, training.train.batch_tokens / (r.length * r.work.columns));
  r.target_length = o.plan.target_length > 0                 ? o.plan.target_length
                    : o.plan.job_kind() == PlanJob::generate ? o.seq2seq.generation.max_length
                                                             : o.seq2seq.learning.target_length;
  r.memory = o.device.memory_limit / 100 * percent_of_limit(r.gpu.sm > 0);
  const std::string halves = r.gpu.bf16 > 0   ? "bf16"
                             : r.gpu.fp16 > 0 ? "fp16"
                                              : "",
                    whole = cuda && r.gpu.tf32 > 0 ? "tf32" : "fp32";
  const bool trains = is_training(r.work.job);
  const std::string& asked = trains ? training.train.precision : o.shared.infer.precision;
  if (asked == "int8")
    throw usage_error(
        "--infer.precision int8 has no plan: it is for encoders on processors; give bf16");
  r.precisions = {};
  if (asked != "auto")
    r.precisions = {asked};
  else if (!trains)
    r.precisions = {halves.empty() ? whole : halves};
  else if (halves.empty())
    r.precisions = {whole};
  else
    r.precisions = {halves, whole};
  if (r.gpu.tflops(r.precisions.front()) == 0)
    throw usage_error("--{}.precision {}: {} has no such products; give {}",
                      trains ? "train" : "infer", asked, r.gpu.name,
                      halves.empty() ? whole : halves);
  if (c.set.given("train.activation-checkpointing"))
    r.checkpointing = {training.train.activation_checkpointing};
  if (c.set.given("parallel.strategy"))
    r.zero1 = {training.parallel.strategy_kind() == Strategy::zero1 && ranks > 1};
  else if (ranks > 1 && r.work.optimizer != "adafactor")
    r.zero1 = {false, true};
  if (c.set.given("train.micro-batch") && training.train.micro_batch > 0)
    r.micro_batch = training.train.micro_batch;
  return r;
}

std::string in_gib(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / gib);
}

void print_candidates(const Plan& plan, std::int64_t shown) {
  std::vector<std::vector<std::string>> rows;
  for (const PlanCandidate& one : plan.candidates) {
    if (std::ssize(rows) == shown) break;
    rows.push_back({one.work.precision, one.work.checkpointing ? "yes" : "no",
                    one.work.zero1 ? fmt::format("zero1 of {}", one.work.ranks) : "ddp",
                    one.fits() ? std::to_string(one.micro_batch) : "does not fit",
                    one.fits() ? std::to_string(one.accumulation) : "-",
                    one.fits() ? std::to_string(one.largest) : "-", in_gib(one.bytes),
                    one.fits() ? fmt::format("{:.3f}", one.step_seconds) : "-",
                    one.fits() ? fmt::format("{:.0f}", one.tokens_per_second) : "-"});
  }
  fmt::print("{}\n", format_table({"precision", "checkpointing", "strategy", "micro-batch",
                                   "accumulation", "largest", "GiB", "s/update", "tokens/s"},
                                  rows));
}

void print_parts(const MemoryParts& p) {
  std::vector<std::vector<std::string>> rows;
  const std::pair<const char*, std::int64_t> parts[] = {
      {"weights (fp32 masters)", p.weights},
      {"gradients", p.gradients},
      {"optimizer's moments", p.optimizer},
      {"communication buffers", p.communication},
      {"weights in the products' type", p.copies},
      {"activations", p.activations},
      {"logits of the vocabulary", p.logits},
      {"keys and values (cache)", p.cache},
      {"workspace at the highest moment", p.workspace},
      {"together", p.total()}};
  for (const auto& [name, bytes] : parts)
    if (bytes > 0) rows.push_back({name, in_gib(bytes)});
  fmt::print("{}\n", format_table({"memory of the first", "GiB"}, rows));
}

// Of encode and predict, or of generate: in a process of its own.
void print_inference(const PlanRequest& r, const Plan& plan) {
  const std::int64_t documents = plan.inference;
  const double seconds = plan.inference_seconds;
  std::vector<std::string> row{documents > 0 ? std::to_string(documents) : "does not fit",
                               in_gib(plan.inference_parts.total())};
  if (documents > 0) {
    row.push_back(fmt::format("{:.3f}", seconds));
    row.push_back(fmt::format("{:.1f}", static_cast<double>(documents) / seconds));
  } else {
    row.insert(row.end(), 2, "-");
  }
  const std::string what =
      r.model.is_t5() ? fmt::format("generate, {} tokens each", r.target_length) : "encode";
  row.insert(row.begin(), {what, plan.candidates.front().work.precision});
  fmt::print("{}\n", format_table({"inference, alone", "precision", "documents at once", "GiB",
                                   "s/batch", "documents/s"},
                                  {row}));
}

void print_plan(const PlanRequest& r, const Plan& plan, const Calibration& calibration,
                std::int64_t shown) {
  const bool trains = is_training(r.work.job);
  fmt::print("{}: {} parameters; {} rank{} of {}, {} GiB for tensors{}\n", r.model.name,
             format_count(parameter_count(r.model, r.work.job == PlanJob::pretrain)), r.work.ranks,
             r.work.ranks == 1 ? "" : "s", r.gpu.name, in_gib(plan.limit),
             r.gpu.sm > 0 && r.memory == 0
                 ? fmt::format(" ({:.0f} MiB and {:.0f}% of the rest are left to CUDA and to gaps)",
                               GpuKind::context / 1048576., 100 * GpuKind::gaps)
             : r.memory > 0
                 ? fmt::format(" ({}% of --device.memory-limit)", percent_of_limit(r.gpu.sm > 0))
                 : "");
  if (r.gpu.sm == 70)
    fmt::print(
        "CUDA 13 has no code for this GPU (sm70): the figures hold, but a program built with "
        "CUDA 13 does not run on it; build with CUDA 12.\n");
  if (trains) {
    fmt::print("{} documents an update, of at most {}{} tokens; {}\n\n", r.global_batch, r.length,
               r.model.is_t5() ? fmt::format(" + {}", r.target_length) : "", r.work.optimizer);
    print_candidates(plan, shown);
  } else {
    fmt::print("\n");
  }
  print_parts(plan.candidates.front().memory);
  if (trains && plan.fits())
    fmt::print("evaluation beside it: {} documents at once\n", plan.evaluation);
  print_inference(r, plan);
  fmt::print("memory: {}; time: products at {:.0f}% of the peak, or the memory's bandwidth\n",
             calibration.from.empty()
                 ? "from shapes alone"
                 : fmt::format("what grows with the batch x {:.2f}, as measured ({})",
                               calibration.memory, calibration.from),
             100 * peak_share);
  for (const std::string& sentence : plan.advice) fmt::print("{}\n", sentence);
}

// One trial of encode or generate: a second one would find the memory of the first.
void calibrate_inference(CommandContext& c, const PlanRequest& r, CalibrationFile& file) {
  constexpr std::int64_t texts_of_thread = 8;
  PlannedWork work = r.work;
  work.precision = r.precisions.front();
  const std::int64_t asked =
      c.options.shared.infer.batch > 0 ? c.options.shared.infer.batch : texts_of_thread;
  const PlannedBatch batch{asked * (work.cuda ? 1 : work.threads), r.length, r.target_length};
  const MemoryParts parts = inference_memory(r.model, work, batch);
  const TrialResult result = run_inference_trial(r.model, work, batch, c.options, c.device, c.comm);
  file.add(r, work, batch, parts, inference_time(r.model, work, batch, r.gpu), result.peak,
           result.step_seconds);
  if (c.comm.is_root())
    fmt::print("one trial; nothing is saved\n{}\n",
               format_table({"precision", "texts at once", "predicted GiB", "measured GiB",
                             "difference", "s"},
                            {{work.precision, std::to_string(batch.documents),
                              in_gib(parts.total()), in_gib(result.peak),
                              fmt::format("{:+.1f}%", 100. * (static_cast<double>(parts.total()) /
                                                                  static_cast<double>(result.peak) -
                                                              1)),
                              fmt::format("{:.3f}", result.step_seconds)}}));
}

// Trials of all that is planned, on this machine.
void calibrate(CommandContext& c, const PlanRequest& r, CalibrationFile& file) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& precision : r.precisions)
    for (const bool checkpointing : r.checkpointing) {
      PlannedWork work = r.work;
      work.precision = precision, work.checkpointing = checkpointing, work.zero1 = r.zero1.front();
      const std::int64_t most = r.micro_batch > 0 ? r.micro_batch : 4;
      for (const std::int64_t documents : {std::max<std::int64_t>(1, most / 2), most}) {
        const std::int64_t pieces =
            std::max<std::int64_t>(work.ranks, block_count(r.global_batch, documents));
        const PlannedBatch batch{documents, r.length, r.target_length, pieces};
        const MemoryParts parts = training_memory(r.model, work, batch);
        const std::int64_t limit = r.memory > 0 ? r.memory : r.gpu.usable();
        if (parts.total() > limit) continue;
        const TrialResult result = run_trial(r.model, work, batch, c.options, c.device, c.comm);
        if (!result.ran_out)
          file.add(r, work, batch, parts, step_time(r.model, work, batch, r.gpu).seconds(),
                   result.peak, result.step_seconds);
        const double ratio = static_cast<double>(parts.total()) / static_cast<double>(result.peak);
        rows.push_back({precision, checkpointing ? "yes" : "no", std::to_string(documents),
                        in_gib(parts.total()),
                        result.ran_out ? "out of memory" : in_gib(result.peak),
                        result.ran_out ? "" : fmt::format("{:+.1f}%", 100. * (ratio - 1)),
                        result.ran_out ? "" : fmt::format("{:.3f}", result.step_seconds)});
      }
    }
  if (c.comm.is_root())
    fmt::print("trials, three updates each; nothing is saved\n{}\n",
               format_table({"precision", "checkpointing", "micro-batch", "predicted GiB",
                             "measured GiB", "difference", "s/update"},
                            rows));
}

}  // namespace

// What fits, and how fast: printed, and written for programs and as a config file.
void plan_command(CommandContext& c) {
  const PlanOptions& o = c.options.plan;
  PlanRequest request;
  CalibrationFile file;
  on_root(c.comm, [&] {
    check_output("plan.config", o.config, "# gpuhpc ");
    check_output("plan.json", o.json, "{\n  \"model\"");
  });
  run_collectively(c.comm, [&] {
    c.options.shared.training.train.check(c.set);
    request = request_of(c);
    if (!o.calibration.empty()) file.read(o.calibration);
    if (o.calibrate && (o.gpu != "auto" && o.gpu != "cpu"))
      throw usage_error("--plan.calibrate measures this machine; leave --plan.gpu {} away", o.gpu);
    if (o.calibrate && o.job == "predict")
      throw usage_error(
          "--plan.calibrate true is for trainings, encode and generate; predict encodes: give "
          "--plan.job encode");
    if (o.calibrate && !is_training(request.work.job) && c.comm.size() > 1)
      throw usage_error("--plan.calibrate true of {} runs on one rank; start one", o.job);
    if (o.calibrate && (request.gpu.sm > 0) != c.device.cuda)
      throw usage_error("--plan.calibrate: trials run on {}; give --plan.gpu auto",
                        describe(c.device));
  });
  if (o.calibrate && is_training(request.work.job))
    calibrate(c, request, file);
  else if (o.calibrate)
    calibrate_inference(c, request, file);
  on_root(c.comm, [&] {
    if (o.calibrate && !o.calibration.empty()) file.write(o.calibration);
    const auto known = [&](const PlannedWork& work) { return file.find(request, work); };
    const Plan plan = make_plan(request, known);
    print_plan(request, plan, known(plan.candidates.front().work), o.candidates);
    if (!o.json.empty()) write_json(o.json, plan_json(request, plan));
    if (plan.fits() && !o.config.empty())
      write_text_file(o.config, plan_config(request, plan, c.set, o));
    if (!plan.fits())
      throw Error(ExitCode::out_of_memory, fmt::format("{} does not fit {}: {}", request.model.name,
                                                       request.gpu.name, plan.advice.front()));
  });
}

}  // namespace gpuhpc
