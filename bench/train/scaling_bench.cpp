// One run of the scaling measurement: the Trainer with the weights of all-MiniLM-L6-v2 on real
// texts, a linear head over it. One process per rank, as mpirun starts them; bench/scaling.sh makes
// the runs and the table. Appends one line of JSON to --scaling.output:
//   scripts/mpirun.sh 2 build/release/scaling_bench --scaling.output FILE [--scaling.kind
//   weak|strong] [--train.batch ...] [--parallel.reduce-type bf16 ...]
// A step's time is split on the rank that computes longest in it, for which all others wait. The
// phases of each rank must add up to its wall time within 2%, or the run fails.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/comm/tensors.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/device/memory.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/nn/ops.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t classes = 64;

struct Settings {
  std::string place = "machine", kind = "weak", corpus = "data/debtags-topical/train/corpus.txt.gz",
              encoder = ".deps/models/all-MiniLM-L6-v2", output = "scaling.json";
  std::int64_t steps = 10, warm_up = 2;
  TrainOptions train;
  std::int64_t layers = 6, max_length = 128;
  ParallelOptions parallel;
};

void declare(config::OptionSet& set, Settings& s) {
  config::Section& own = set.section("scaling", "the measurement");
  own.option("place", s.place, "how the ranks are joined, for the table")
      .one_of({"machine", "nodes"});
  own.option("kind", s.kind,
             "weak: --train.batch counts for each rank; strong: for all ranks together")
      .one_of({"weak", "strong"});
  own.option("corpus", s.corpus, "texts").existing_path();
  own.option("encoder", s.encoder, "a Hugging Face folder").existing_path();
  own.option("output", s.output, "one line of JSON is added to it");
  own.option("steps", s.steps, "updates that are measured").range(1, 1e6);
  own.option("warm-up", s.warm_up, "updates before them").range(1, 1e6);
  // Everything but the embeddings learns; rates are those of the first update on, so that a wrong
  // sum shows in the losses.
  own.option("layers", s.layers, "top layers that learn").range(0, 1000);
  own.option("max-length", s.max_length, "tokens per document").range(3, 1e6);
  s.train.batch = s.train.micro_batch = 32, s.train.epochs = 1000;
  s.train.warmup = 0, s.train.decay = "constant", s.train.rate_rule = "none";
  s.parallel.bucket_bytes = 1 << 20;
  gpuhpc::declare(set.section("train", "the trainer"), s.train);
  gpuhpc::declare(set.section("parallel", "how the ranks work together"), s.parallel);
}

struct LinearHead : HeadParameters {
  explicit LinearHead(std::int64_t width) {
    at::Tensor value = at::empty({classes, width}, at::TensorOptions().dtype(at::kFloat));
    RandomStream random(5, 0);
    std::generate_n(value.mutable_data_ptr<float>(), value.numel(),
                    [&] { return static_cast<float>(2 * random.uniform() - 1); });
    parameters_ = {{"weight", value.set_requires_grad(true)},
                   {"bias", at::zeros({classes}).set_requires_grad(true)}};
  }
  at::Tensor logits(const at::Tensor& documents) const {
    return mixed_linear(documents, parameters_[0].value, parameters_[1].value, at::kFloat);
  }
};

// The class of a document is its number modulo `classes`: only the work counts.
at::Tensor targets(std::span<const std::int64_t> documents) {
  at::Tensor rows = at::zeros({std::ssize(documents), classes});
  float* row = rows.mutable_data_ptr<float>();
  for (const std::int64_t document : documents) row[document % classes] = 1, row += classes;
  return rows;
}

struct Model {
  Model(const Settings& settings, int ranks)
      : encoder(load_encoder(settings.encoder).encoder),
        head(encoder.config().hidden_size),
        arena(groups(settings), ranks) {
    embedding.normalise = true;
    forward.compute =
        settings.train.precision_kind(at::kCPU) == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  }
  std::vector<ParameterGroup> groups(const Settings& settings) {
    encoder.train_top_layers(settings.layers);
    const double decay = settings.train.weight_decay;
    std::vector<ParameterGroup> all =
        split_by_decay("encoder", 3e-5, decay, trained_parameters(encoder));
    for (ParameterGroup& group : split_by_decay("head", 1e-3, decay, trained_parameters(head)))
      all.push_back(std::move(group));
    return all;
  }
  LossSum loss(const PackedIds& batch) const {
    const at::Tensor documents =
        encoder.embed(pack_tokens(batch.token_ids, batch.offsets, at::kCPU), embedding, forward);
    return {soft_target_cross_entropy(head.logits(documents), targets(batch.documents)),
            static_cast<double>(batch.size())};
  }
  Encoder encoder;
  LinearHead head;
  EmbeddingConfig embedding;
  ForwardOptions forward;
  ParameterArena arena;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of all threads of this process, and of the calling one, which computes; the communicator's thread
// drives MPI.
double processor_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

enum Phase { wall, data, compute, exposed, update, phases };
struct Measured {
  std::vector<double> times;  // (steps, phases) of this rank, seconds
  std::vector<StepReport> reports;
  double processor = 0, computing = 0;  // seconds of the process and of its computing thread
};

Measured measure(Trainer& trainer, const Settings& settings, Communicator& comm) {
  Measured result;
  for (std::int64_t i = 0; i < settings.warm_up; ++i) result.reports.push_back(trainer.step());
  comm.barrier();
  const double processor = processor_seconds(CLOCK_PROCESS_CPUTIME_ID),
               computing = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
  auto last = Clock::now();
  for (std::int64_t i = 0; i < settings.steps; ++i) {
    const StepReport report = trainer.step();
    const auto now = Clock::now();
    result.times.insert(
        result.times.end(),
        {std::chrono::duration<double>(now - last).count(), report.data_seconds,
         report.compute_seconds, report.exposed_communication_seconds, report.update_seconds});
    result.reports.push_back(report);
    last = now;
  }
  result.processor = processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
  result.computing = processor_seconds(CLOCK_THREAD_CPUTIME_ID) - computing;
  return result;
}

void check_sum(const Measured& measured, Communicator& comm) {
  std::array<double, phases> sums{};
  for (std::size_t i = 0; i < measured.times.size(); ++i) sums[i % phases] += measured.times[i];
  const double parts = std::accumulate(sums.begin() + 1, sums.end(), 0.0);
  run_collectively(comm, [&] {
    if (!(std::abs(parts - sums[wall]) <= .02 * sums[wall]))
      throw internal_error(
          "the phases of rank {} add up to {:.3f} s of {:.3f} s by the clock, more than 2% away",
          comm.rank(), parts, sums[wall]);
  });
}

// The steps as the table wants them: phases of the rank that computed longest, and how long the
// others waited for it on average.
Json steps_of(const Measured& measured, const Settings& settings, Communicator& comm) {
  const std::vector<double> all = comm.all_gather_v(std::span<const double>(measured.times));
  const auto steps = static_cast<std::size_t>(settings.steps),
             ranks = static_cast<std::size_t>(comm.size());
  Json result = Json::array();
  for (std::size_t i = 0; i < steps; ++i) {
    const auto of = [&](std::size_t rank) { return &all[(rank * steps + i) * phases]; };
    const auto own_work = [&](std::size_t rank) { return of(rank)[data] + of(rank)[compute]; };
    std::size_t longest = 0;
    double sum = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      sum += own_work(rank);
      if (own_work(rank) > own_work(longest)) longest = rank;
    }
    const double* p = of(longest);
    const StepReport& report = measured.reports[static_cast<std::size_t>(settings.warm_up) + i];
    result.push_back(Json{{"wall", p[wall]},
                          {"data", p[data]},
                          {"compute", p[compute]},
                          {"exposed", p[exposed]},
                          {"update", p[update]},
                          {"waiting", own_work(longest) - sum / static_cast<double>(ranks)},
                          {"tokens", report.tokens}});
  }
  return result;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The sum of all buckets with nothing beside it, seconds.
double sum_alone(const Trainer& trainer, std::int64_t floats, bool bfloat16, Communicator& comm) {
  const at::Tensor wire =
      at::zeros({floats}, at::TensorOptions().dtype(bfloat16 ? at::kBFloat16 : at::kFloat));
  std::vector<double> times;
  for (int round = 0; round < 6; ++round) {
    comm.barrier();
    const auto start = Clock::now();
    std::vector<std::unique_ptr<Work>> works;
    for (const Range& range : trainer.sync().buckets())
      works.push_back(
          start_all_reduce(comm, wire.narrow(0, range.first, range.size()), Reduce::tree_sum));
    for (const auto& work : works) work->wait();
    if (round > 0) times.push_back(comm.all_reduce_value(seconds_since(start), Reduce::max));
  }
  return median(times);
}

double message_seconds(Communicator& comm) {
  std::array<double, 12> values{};
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    comm.all_reduce(std::span<double>(values));
    times.push_back(seconds_since(start));
  }
  return median(times);
}

void run(Communicator& comm, const std::vector<std::string>& arguments) {
  Settings settings;
  config::OptionSet set;
  run_collectively(comm, [&] {
    declare(set, settings);
    set.parse({}, arguments);
  });
  at::set_num_threads(1);
  limit_host_memory(0);
  const int ranks = comm.size();
  const std::int64_t accumulation = std::max<std::int64_t>(
      1, settings.train.batch / settings.train.micro_batch / (settings.kind == "weak" ? 1 : ranks));
  if (settings.kind == "weak") settings.train.batch *= ranks;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  run_collectively(comm, [&] {
    tokenizer = load_tokenizer(settings.encoder);
    model = std::make_unique<Model>(settings, ranks);
  });
  const std::filesystem::path shards =
      comm.broadcast_string(settings.output + ".shards-" + std::to_string(::getpid()));
  prepare_shards(scan_corpus(settings.corpus, {}, comm), *tokenizer, shards, {}, Texts::leave, comm,
                 1);
  {
    const TokenDataset dataset(shards);
    DocumentTask task({&dataset}, settings.max_length, tokenizer->special().single,
                      [&](const PackedIds& batch, DropoutSeed) { return model->loss(batch); });
    Trainer trainer(model->arena, task, settings.train,
                    {.comm = comm, .parallel = settings.parallel});
    const Measured measured = measure(trainer, settings, comm);
    check_sum(measured, comm);
    const Json steps = steps_of(measured, settings, comm);
    const double alone = ranks > 1 ? sum_alone(trainer, model->arena.capacity(),
                                               settings.parallel.reduce_in_bfloat16(), comm)
                                   : 0;
    const double message = ranks > 1 ? message_seconds(comm) : 0;
    const double processor = comm.all_reduce_value(measured.processor),
                 computing = comm.all_reduce_value(measured.computing);
    std::vector<double> losses;
    for (const StepReport& report : measured.reports) losses.push_back(report.loss);
    const auto count = static_cast<double>(settings.steps);
    on_root(comm, [&] {
      append_line(settings.output,
                  Json{{"place", settings.place},
                       {"kind", settings.kind},
                       {"ranks", ranks},
                       {"nodes", ranks / comm.node_size()},
                       {"cores", std::thread::hardware_concurrency()},
                       {"precision", model->forward.compute == at::kBFloat16 ? "bf16" : "fp32"},
                       {"wire", settings.parallel.reduce_type},
                       {"layers", settings.layers},
                       {"batch", settings.train.batch},
                       {"accumulation", accumulation},
                       {"parameters", model->arena.parameter_count()},
                       {"bytes", model->arena.parameter_count() *
                                     (settings.parallel.reduce_in_bfloat16() ? 2 : 4)},
                       {"sum_alone", alone},
                       {"message", message},
                       {"processor", processor / count},
                       {"computing", computing / count},
                       {"losses", losses},
                       {"steps", steps}}
                      .dump());
    });
  }
  comm.barrier();
  on_root(comm, [&] { std::filesystem::remove_all(shards); });
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  const gpuhpc::MpiSession session;
  const auto comm = gpuhpc::MpiSession::world();
  try {
    gpuhpc::run(*comm, {argv + 1, argv + argc});
    return 0;
  } catch (const gpuhpc::Error& error) {
    if (!error.on_all_ranks() || comm->is_root())
      fmt::print(stderr, "scaling_bench: {}\n", error.what());
    if (!error.on_all_ranks()) gpuhpc::MpiSession::abort(static_cast<int>(error.code()));
    return static_cast<int>(error.code());
  }
}
