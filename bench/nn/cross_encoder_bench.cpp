// Logits of a sequence classifier, as bench/peers/cross_encoders.py drives it.
//   cross_encoder_bench MODEL TOKENS.safetensors PRECISION THREADS LOGITS.safetensors [KERNELS |
//   plain | cuda]
// MODEL: a Hugging Face folder of a ...ForSequenceClassification. TOKENS: int32 "token_ids" (T),
// "segment_ids" (T), "offsets" (documents + 1). Writes the logits, prints one JSON line about the
// model, then each line read from standard input makes one pass, answered by one JSON line of
// seconds, by the clock and of the processor. `plain`: the differentiable operators that training
// uses instead of the packed forward. `cuda`: the same on GPU 0, batches as `infer.token-budget`
// cuts them there; a pass ends when its logits are on the host.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../answer.hpp"
#include "gpuhpc/base/block.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/safetensors.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"

namespace gpuhpc {
namespace {

// That a thread, or a GPU, takes at once: infer.token-budget's defaults.
constexpr std::int64_t cpu_tokens = 2048, gpu_tokens = 32768;

// Of all threads of this process: what counts on a machine that is busy with other work.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<std::int32_t> integers(const SafeTensors& file, const char* name) {
  const TensorView* view = file.find(name);
  if (view == nullptr || view->type != TensorType::int32)
    throw input_error("{}: int32 \"{}\" is missing", file.path().string(), name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(view->count()));
  std::memcpy(values.data(), view->data.data(), view->data.size());
  return values;
}

struct Documents {
  explicit Documents(const SafeTensors& file)
      : ids(integers(file, "token_ids")),
        segments(integers(file, "segment_ids")),
        offsets(integers(file, "offsets")) {}
  std::int64_t size() const { return std::ssize(offsets) - 1; }
  std::int64_t start(std::int64_t document) const {
    return offsets[static_cast<std::size_t>(document)];
  }
  // First documents of batches, and the end.
  std::vector<std::int64_t> batches(std::int64_t batch_tokens = cpu_tokens) const {
    std::vector<std::int64_t> firsts{0};
    for (std::int64_t d = 1; d < size(); ++d)
      if (start(d + 1) - start(firsts.back()) > batch_tokens) firsts.push_back(d);
    firsts.push_back(size());
    return firsts;
  }
  std::vector<std::int32_t> ids, segments, offsets;
};

void packed_pass(const CpuClassifier& classifier, const Documents& documents, int threads,
                 std::vector<std::unique_ptr<CpuWorkspace>>& workspaces, bool segments,
                 MutableMatrixView logits) {
  const std::vector<std::int64_t> firsts = documents.batches();
  parallel_for(0, std::ssize(firsts) - 1, threads, [&](std::int64_t i, int thread) {
    const std::int64_t first = firsts[static_cast<std::size_t>(i)],
                       count = firsts[static_cast<std::size_t>(i) + 1] - first;
    PackedIds packed;
    for (std::int64_t d = first; d < first + count; ++d) {
      const auto part = [&](const std::vector<std::int32_t>& all) {
        return std::span(all).subspan(static_cast<std::size_t>(documents.start(d)),
                                      static_cast<std::size_t>(documents.start(d + 1)) -
                                          static_cast<std::size_t>(documents.start(d)));
      };
      packed.add_pair(d, part(documents.ids),
                      segments ? part(documents.segments) : std::span<const std::int32_t>());
    }
    classifier.logits(*workspaces[static_cast<std::size_t>(thread)], packed,
                      logits.slice(first, count));
  });
}

void plain_pass(const SequenceClassifier& classifier, const Documents& documents, bool segments,
                const ForwardOptions& options, MutableMatrixView logits) {
  const at::NoGradGuard guard;
  const at::Device device = classifier.encoder().device();
  const std::vector<std::int64_t> firsts =
      documents.batches(device.is_cuda() ? gpu_tokens : cpu_tokens);
  std::vector<at::Tensor> batches;  // read once, at the end: a GPU computes behind the host
  for (std::size_t i = 0; i + 1 < firsts.size(); ++i) {
    const std::int64_t begin = documents.start(firsts[i]),
                       tokens = documents.start(firsts[i + 1]) - begin;
    const auto part = [&](const std::vector<std::int32_t>& all) {
      return std::span(all).subspan(static_cast<std::size_t>(begin),
                                    static_cast<std::size_t>(tokens));
    };
    std::vector<std::int32_t> offsets;
    for (std::int64_t d = firsts[i]; d <= firsts[i + 1]; ++d)
      offsets.push_back(static_cast<std::int32_t>(documents.start(d) - begin));
    const PackedTokens batch =
        pack_tokens(part(documents.ids), offsets, device,
                    segments ? part(documents.segments) : std::span<const std::int32_t>{});
    batches.push_back(classifier.logits(batch, options));
  }
  const at::Tensor rows = at::cat(batches).to(at::kCPU).contiguous();
  std::copy_n(rows.const_data_ptr<float>(), rows.numel(), logits.row(0).data());
}

// On a GPU every precision is one of LibTorch's; on a processor fp16 is none.
ForwardOptions forward_options(const std::string& precision, bool cuda, CpuPrecision cpu) {
  ForwardOptions options;
  if (cuda) {
    options.compute = precision == "bf16"   ? at::kBFloat16
                      : precision == "fp16" ? at::kHalf
                                            : at::kFloat;
    options.tf32 = precision == "tf32";
  } else if (cpu == CpuPrecision::bf16) {
    options.compute = at::kBFloat16;
  }
  return options;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5)
    throw usage_error(
        "cross_encoder_bench MODEL TOKENS.safetensors PRECISION THREADS LOGITS.safetensors "
        "[KERNELS | plain | cuda]");
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const bool cuda = arguments.size() > 5 && arguments[5] == "cuda";
  const bool plain = cuda || (arguments.size() > 5 && arguments[5] == "plain");
  const int threads = std::stoi(arguments[3]);
  at::set_num_threads(threads);
  const double before = now();
  const SequenceClassifier classifier =
      SequenceClassifier::load(arguments[0], cuda ? at::Device(at::kCUDA, 0) : at::kCPU);
  const kernels::Isa isa =
      arguments.size() > 5 && !plain ? kernels::parse_isa(arguments[5]) : kernels::best_isa();
  const CpuPrecision precision =
      usable_cpu_precision(parse_cpu_precision(cuda ? "fp32" : arguments[2]), isa);
  std::optional<CpuClassifier> packed;
  std::vector<std::unique_ptr<CpuWorkspace>> workspaces;
  if (!plain) packed.emplace(classifier, precision, isa);
  for (int t = 0; !plain && t < threads; ++t) workspaces.push_back(packed->make_workspace());
  const double loaded = now();
  const Documents documents{SafeTensors(arguments[1])};
  const bool segments = classifier.encoder().config().token_types > 1;
  Matrix logits(documents.size(), std::ssize(classifier.labels()));
  const ForwardOptions options = forward_options(arguments[2], cuda, precision);
  const auto pass = [&] {
    if (plain)
      plain_pass(classifier, documents, segments, options, logits.view());
    else
      packed_pass(*packed, documents, threads, workspaces, segments, logits.view());
  };
  pass();
  const auto bytes = std::as_bytes(std::span(logits.values));
  write_safetensors(arguments[4],
                    {{"logits", TensorType::float32, {logits.rows, logits.columns}, bytes}});
  fmt::print("{{\"parameters\": {}, \"load_seconds\": {:.3f}, \"kernels\": \"{} on {}\"}}\n",
             classifier.parameter_count(), loaded - before,
             cuda ? arguments[2] : std::string(to_string(precision)),
             cuda    ? "cuda:0"
             : plain ? "LibTorch"
                     : to_string(isa));
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const double start = now(), processor = processor_seconds();
    pass();
    fmt::print("{{\"seconds\": {:.6f}, \"processor\": {:.6f}}}\n", now() - start,
               processor_seconds() - processor);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) { return gpuhpc::answer(argc, argv, gpuhpc::run); }
