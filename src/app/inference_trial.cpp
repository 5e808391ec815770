#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "gpuhpc/app/plan_trial.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/infer/generate.hpp"

namespace gpuhpc {
namespace {

// The most bytes of its own pages, files' not counted, that this process has while it lives.
class ProcessPeak {
 public:
  ProcessPeak() : before_(now()), peak_(before_), watch_([this] { watch(); }) {}
  ~ProcessPeak() {
    over_ = true;
    watch_.join();
  }
  ProcessPeak(const ProcessPeak&) = delete;
  ProcessPeak& operator=(const ProcessPeak&) = delete;
  std::int64_t growth() {
    see();
    return peak_ - before_;
  }

 private:
  static std::int64_t now() {
    std::ifstream file("/proc/self/statm");
    std::int64_t size = 0, resident = 0, shared = 0;
    if (!(file >> size >> resident >> shared))
      throw configuration_error(
          "/proc/self/statm cannot be read, which --plan.calibrate needs for {}; plan without it",
          "encode and generate");
    return (resident - shared) * sysconf(_SC_PAGESIZE);
  }
  void see() {
    for (std::int64_t seen = peak_, own = now(); own > seen;)
      if (peak_.compare_exchange_weak(seen, own)) break;
  }
  void watch() {
    while (!over_) {
      see();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::int64_t before_;
  std::atomic<std::int64_t> peak_;
  std::atomic<bool> over_ = false;
  std::thread watch_;  // last: it reads the others
};

// Texts of `length` tokens with those of `form`.
std::vector<std::vector<std::int32_t>> made_up_texts(const PlannedModel& model,
                                                     const PlannedBatch& batch, std::int64_t texts,
                                                     const TextTemplate& form) {
  std::vector<std::vector<std::int32_t>> all;
  for (std::int64_t text = 0; text < texts; ++text) {
    RandomStream random(static_cast<std::uint64_t>(text), 0);
    std::vector<std::int32_t>& tokens = all.emplace_back();
    while (std::ssize(tokens) + form.specials() < batch.length)
      tokens.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(model.vocabulary()))));
  }
  return all;
}

// Of a thread of a processor, or of a GPU.
std::int64_t texts_at_once(const PlannedWork& work, std::int64_t texts) {
  return work.cuda ? texts : (texts + work.threads - 1) / work.threads;
}

InferOptions infer_options(const Options& options, const PlannedWork& work,
                           const PlannedBatch& batch, std::int64_t texts) {
  InferOptions infer = options.shared.infer;
  infer.precision = work.precision;
  infer.batch = texts_at_once(work, texts);
  infer.token_budget = infer.batch * batch.length;
  return infer;
}

// New weights in their places, without a copy that would count.
void draw(const std::vector<NamedParameter>& parameters) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = make_generator(at::kCPU, 1);
  for (const NamedParameter& parameter : parameters) {
    if (parameter.value.dim() == 1)
      parameter.value.fill_(parameter.name.ends_with("weight") ? 1 : 0);
    else if (parameter.value.is_cpu())
      parameter.value.normal_(0, .02, generator);
    else
      parameter.value.normal_(0, .02);
  }
}

template <typename Body>
double seconds_of(const Body& body) {
  body();  // its memory is there from here on
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double generate_seconds(const PlannedModel& model, const PlannedWork& work,
                        const PlannedBatch& batch, const Options& options,
                        const DeviceChoice& device, Communicator& comm) {
  T5 t5(model.t5(), torch_device(device));
  draw(t5.parameters());
  const TextTemplate form{{}, {model.t5().eos}};
  GenerateOptions generation = options.seq2seq.generation;
  generation.max_length = generation.min_length = batch.target_length;  // none ends earlier
  InferOptions infer = infer_options(options, work, batch, batch.documents);
  if (work.cuda)  // what is written counts there
    infer.token_budget += infer.batch * generation.beams * generation.max_length;
  const T5Generator generator(t5, form, batch.length, generation, infer, device);
  const auto texts = made_up_texts(model, batch, batch.documents, form);
  const TokenSource sources = token_source(texts);
  return seconds_of([&] { generator.generate_together(sources, 0, comm); });
}

double encode_seconds(const PlannedModel& model, const PlannedWork& work, const PlannedBatch& batch,
                      const Options& options, const DeviceChoice& device) {
  Encoder encoder(model.encoder(), torch_device(device), model.pooler);
  draw(encoder.parameters());
  const EmbeddingConfig embedding;
  const std::int64_t texts = batch.documents * work.columns;
  const InferPlan plan(infer_options(options, work, batch, texts), device);
  InferModel in{.hidden_size = model.hidden(),
                .columns = embedding.width(model.hidden()),
                .device = encoder.device()};
  if (plan.cuda) {
    in.on_device = [&](const PackedTokens& packed) {
      return encoder.embed(packed, embedding, plan.forward);
    };
  } else {
    const auto packed_encoder = std::make_shared<CpuEncoder>(encoder, plan.precision, plan.isa);
    in.workspace = [packed_encoder] { return packed_encoder->make_workspace(); };
    in.on_cpu = [packed_encoder, embedding](CpuWorkspace& workspace, const PackedIds& packed,
                                            MutableMatrixView rows) {
      packed_encoder->embed(workspace, packed, embedding, rows);
    };
  }
  const BatchRunner runner(plan, std::move(in));
  const TextTemplate form;
  const auto tokens = made_up_texts(model, batch, texts, form);
  const auto batches =
      runner.cut(std::vector<std::int64_t>(static_cast<std::size_t>(texts), batch.length));
  return seconds_of([&] {
    runner.run(
        batches,
        [&](const ItemBatch& items) {
          PackedIds packed;
          for (std::int64_t i = items.first; i < items.last; ++i)
            packed.add(i, tokens[static_cast<std::size_t>(i)], form);
          return packed;
        },
        [](const ItemBatch&, const PackedIds&, const Matrix&) {});
  });
}

}  // namespace

TrialResult run_inference_trial(const PlannedModel& model, const PlannedWork& work,
                                const PlannedBatch& batch, const Options& options,
                                const DeviceChoice& device, Communicator& comm) {
  ProcessPeak pages;
  TrialResult result;
  result.step_seconds = work.job == PlanJob::generate
                            ? generate_seconds(model, work, batch, options, device, comm)
                            : encode_seconds(model, work, batch, options, device);
  result.peak = device.cuda ? device_memory(device.index).peak : pages.growth();
  return result;
}

}  // namespace gpuhpc
