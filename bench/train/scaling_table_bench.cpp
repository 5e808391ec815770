// Table, projection and plot of scaling runs: OUT.md and OUT.svg. bench/scaling.sh starts it.
//   scaling_table_bench RUNS.json OUT             lines of scaling_bench, after one line {"header":
//   {"date", "commit", "machine", "command"}} scaling_table_bench --collect OUT FOLDER...   run
//   folders of `gpuhpc run`, one a number of nodes
// Fails (70) when phases do not add up to the wall time within 2%, or when strong scaling changes a
// loss.
#include <fmt/format.h>

#include <cstdio>

#include "scaling_model.hpp"
#include "scaling_plot.hpp"
#include "scaling_runs.hpp"

namespace gpuhpc {
namespace {

constexpr double add_up = .02;   // share of the wall time
constexpr double payload = .94;  // of a link's bits: TCP in Ethernet frames of 1,500 bytes
// What tests/train/data_parallel_mpi_test.cpp asks of a loss curve on any number of ranks, for
// either type on the wire.
double loss_limit(const std::string& wire) { return wire == "bf16" ? 2e-2 : 1e-5; }
constexpr std::size_t cluster_steps = 20;  // compared there: later ones drift apart with rounding

double milliseconds(double seconds) { return 1e3 * seconds; }
double percent(double share) { return 100 * share; }

void check(const std::vector<ScalingRun>& runs) {
  for (const ScalingRun& run : runs) {
    double wall = 0, other = 0;
    for (const ScalingStep& step : run.steps) wall += step.wall, other += step.other();
    if (!(std::abs(other) <= add_up * wall))
      throw internal_error("{}: the phases are {:.1f}% away from the wall time", label_of(run),
                           percent(other / wall));
    const double difference =
        run.kind == "strong"
            ? loss_difference(runs, run, run.place == "cluster" ? cluster_steps : run.losses.size())
            : 0;
    if (!(difference <= loss_limit(run.wire)))
      throw internal_error(
          "{}: a loss is {:.1e} away from that of the smallest run; {:.0e} is allowed",
          label_of(run), difference, loss_limit(run.wire));
  }
}

std::string rank_column(const ScalingRun& run) {
  const std::string shared =
      run.cores > 0 && run.ranks > run.cores ? fmt::format(" (share {} cores)", run.cores) : "";
  return fmt::format("{} on {} node{}{}", run.ranks, run.nodes, run.nodes == 1 ? "" : "s", shared);
}

std::string step_table(const std::vector<ScalingRun>& runs, const std::string& kind) {
  std::string text =
      "| place | ranks | sums | step ms | data | compute | exposed | update | other | waiting for "
      "the slowest | tokens/s | efficiency | per core "
      "| processor s a 1,000 tokens: all (computing) |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ScalingRun& run : runs) {
    if (run.kind != kind) continue;
    const ScalingStep& m = run.mean;
    double tokens = 0;
    for (const ScalingStep& step : run.steps)
      tokens += step.tokens / static_cast<double>(run.steps.size());
    const std::string processor = run.processor > 0
                                      ? fmt::format("{:.3f} ({:.3f})", 1e3 * run.processor / tokens,
                                                    1e3 * run.computing / tokens)
                                      : "-";
    const double share = efficiency(runs, run);
    text += fmt::format(
        "| {}{} | {} | {} | {:.0f} | {:.1f} | {:.0f} | {:.1f} | {:.1f} | {:.2f} | {} | {:.0f} | "
        "{:.0f}% | {:.0f}% | {} |\n",
        run.place, run.layers < 0 ? ", embeddings too" : "", rank_column(run),
        run.ranks == 1 ? "-" : run.wire, milliseconds(m.wall), milliseconds(m.data),
        milliseconds(m.compute), milliseconds(m.exposed), milliseconds(m.update),
        std::round(1e5 * m.other()) / 100 + 0.0,
        run.place == "cluster" ? "-" : fmt::format("{:.0f}", milliseconds(m.waiting)),
        m.tokens_per_second(), percent(share), percent(share * sharing(run)), processor);
  }
  return text + "\n";
}

std::string losses_line(const std::vector<ScalingRun>& runs) {
  double largest = 0;
  std::size_t compared = 0;
  const ScalingRun* one = nullptr;
  for (const ScalingRun& run : runs)
    if (run.kind == "strong" && run.wire == runs.front().wire) {
      const double own =
          loss_difference(runs, run, run.place == "cluster" ? cluster_steps : run.losses.size());
      largest = std::max(largest, own), ++compared;
      one = &run;
    }
  if (one == nullptr) return "";
  return fmt::format(
      "Strong scaling learns the same: the largest difference of any loss from the smallest run's "
      "is {:.1e} over {} runs ({:.0e} is allowed; first loss {:.5f}, last {:.5f}).\n\n",
      largest, compared, loss_limit(one->wire), one->losses.front(), one->losses.back());
}

std::string communication_table(const std::vector<ScalingRun>& runs) {
  std::string text =
      "| run | MB a rank | sum alone ms | exposed ms | hidden |\n|---|---|---|---|---|\n";
  for (const ScalingRun& run : runs)
    if (run.sum_alone > 0)
      text +=
          fmt::format("| {} | {:.1f} | {:.0f} | {:.1f} | {:.0f}% |\n", label_of(run),
                      run.bytes / 1e6, milliseconds(run.sum_alone), milliseconds(run.mean.exposed),
                      percent(std::max(0.0, 1 - run.mean.exposed / run.sum_alone)));
  return text + "\n";
}

// A phase of one node, times what it becomes on as many ranks of one machine, which share cores and
// memory as this machine's "nodes" do.
double without_network(const std::vector<ScalingRun>& runs, const ScalingRun& run,
                       double ScalingStep::*phase) {
  const double one = base_of(runs, run).mean.*phase;
  for (const ScalingRun& near : runs)
    if (near.place == "machine" && near.kind == run.kind && near.ranks == run.ranks)
      return one * (near.mean.*phase / base_of(runs, near).mean.*phase);
  throw input_error("there is no run of {} ranks of one machine beside \"{}\"", run.ranks,
                    label_of(run));
}

// The model against what was measured between nodes of 1 Gbit/s. What it is given: the phases of
// one node, the time of a 96-byte message and the hidden share of two nodes (weak). What it says
// itself: sums, and steps at other numbers of nodes and micro-batches.
struct Check {
  std::string text;
  double hidden = 0;
};
Check check_model(const std::vector<ScalingRun>& runs) {
  Check result;
  const ScalingRun* two = nullptr;
  for (const ScalingRun& run : runs)
    if (run.place == "nodes" && run.ranks == 2 && run.kind == "weak" && run.wire == "fp32" &&
        run.layers >= 0 && two == nullptr)
      two = &run;
  if (two == nullptr) return result;
  result.hidden = std::clamp(1 - two->mean.exposed / two->sum_alone, 0.0, 1.0);
  const Network network{.base = 0, .latency = two->message, .bandwidth = payload * 125e6};
  result.text = fmt::format(
      "Given to it: the phases of one node, and what they become on as many ranks of the machine "
      "without a network (which share cores and "
      "memory, too); 94% of 1 Gbit/s each way for payload; {:.2f} ms a message and {:.0f}% hidden, "
      "both measured on two nodes (weak, fp32).\n\n"
      "| run | sum alone ms: predicted | measured | error | step ms: predicted | measured | error "
      "|\n|---|---|---|---|---|---|---|\n",
      milliseconds(two->message), percent(result.hidden));
  for (const ScalingRun& run : runs) {
    if (run.place != "nodes" || run.ranks == 1) continue;
    const double compute = without_network(runs, run, &ScalingStep::compute),
                 update = without_network(runs, run, &ScalingStep::update);
    const double sum = ring_seconds(network, run.ranks, run.bytes);
    const double step =
        compute +
        exposed_seconds(sum, compute / static_cast<double>(run.accumulation), result.hidden) +
        update;
    result.text += fmt::format("| {} | {:.0f} | {:.0f} | {:+.0f}% | {:.0f} | {:.0f} | {:+.0f}% |\n",
                               label_of(run), milliseconds(sum), milliseconds(run.sum_alone),
                               percent(sum / run.sum_alone - 1), milliseconds(step),
                               milliseconds(run.mean.wall), percent(step / run.mean.wall - 1));
  }
  return result;
}

const EncoderShape bert_large{"BERT-large", 24, 1024, 4096, 335141888},
    minilm{"MiniLM-L6", 6, 384, 1536, 22713216};
constexpr Card a6000{.flops = 154.8e12, .share = .45, .memory_bandwidth = 768e9};
constexpr Network inside{.base = 5e-5, .latency = 1e-5, .bandwidth = 12e9},
    between{.base = 5e-5, .latency = 2e-5, .bandwidth = payload * 12.5e9};

// The published figures that the formulas must give again.
void check_published() {
  const Workload work{bert_large, 32, 512, 1};
  const double fp32 = project(work, a6000, inside, 8, 4, 0).sum,
               bf16 = project(work, a6000, inside, 8, 2, 0).sum,
               step = project(work, a6000, inside, 1, 4, 0).micro_batch;
  if (std::abs(fp32 - .196) > .001 || std::abs(bf16 - .098) > .001 || std::abs(step - .462) > .005)
    throw internal_error(
        "the model gives {:.1f} and {:.1f} ms for BERT-large's sum and {:.1f} ms for its step",
        milliseconds(fp32), milliseconds(bf16), milliseconds(step));
}

std::string assumptions(double hidden) {
  return fmt::format(
      "| assumption | value | source |\n|---|---|---|\n"
      "| FLOPs of a token | 3 x (2 L (4 h^2 + 2 h f) + 4 L h s) | the design notes; the backward "
      "pass is twice the forward pass |\n"
      "| parameters | BERT-large 335.1 M, MiniLM-L6 22.7 M, all of them learn | their model cards "
      "|\n"
      "| peak of an RTX A6000, bf16, dense | {:.1f} TFLOP/s | NVIDIA's data sheet (309.7 with "
      "sparsity, halved) |\n"
      "| share of it in training | {:.0f}% | the 462 ms of BERT-large at 32 x 512 in the design "
      "notes; 37% is known of an A5000, and slower cards scale better. MiniLM reaches less |\n"
      "| memory of the card | {:.0f} GB/s | NVIDIA's data sheet; AdamW moves 28 bytes a parameter "
      "|\n"
      "| sum over n ranks | base + 2 (n - 1) a + 2 (n - 1)/n x bytes/bandwidth | ring all-reduce, "
      "the design notes |\n"
      "| bandwidth in a node, PCIe without bridges | {:.0f} GB/s | the design notes |\n"
      "| bandwidth between nodes of 8 GPUs, 100 Gb/s | {:.2f} GB/s | 94% of it for payload; the "
      "one ring through all GPUs enters and leaves a node once |\n"
      "| a, base | {:.0f} us in a node, {:.0f} us between nodes; {:.0f} us | assumed |\n"
      "| hidden share of the sum | {:.0f}%, while the last backward pass (2/3 of a micro-batch) "
      "lasts | measured above between two nodes of 1 Gbit/s, on processors; NCCL's may differ |\n"
      "| everything else (data, waiting for the slowest, launches of kernels) | 0 | left out: in "
      "this the figures are upper bounds |\n\n",
      a6000.flops / 1e12, percent(a6000.share), a6000.memory_bandwidth / 1e9,
      inside.bandwidth / 1e9, between.bandwidth / 1e9, 1e6 * inside.latency, 1e6 * between.latency,
      1e6 * inside.base, percent(hidden));
}

std::string projection(double hidden) {
  check_published();
  std::string text =
      assumptions(hidden) +
      "Efficiency against one GPU with the same work a GPU; in brackets without any overlap.\n\n"
      "| model, documents x length a micro-batch | sums | accumulation | step of one GPU ms | sum "
      "on 8 GPUs ms | 8 GPUs, one node | 16, two nodes | 32 | 64, eight nodes |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  const Workload works[] = {
      {bert_large, 32, 512, 1}, {bert_large, 32, 128, 1}, {minilm, 128, 128, 1}};
  for (Workload work : works)
    for (const double bytes : {4.0, 2.0})
      for (const int accumulation : {1, 4}) {
        work.accumulation = accumulation;
        const Projected one = project(work, a6000, inside, 1, bytes, hidden);
        text += fmt::format("| {}, {:.0f} x {:.0f} | {} | {} | {:.1f} | {:.1f} |",
                            work.encoder.name, work.documents, work.length,
                            bytes == 4 ? "fp32" : "bf16", accumulation, milliseconds(one.step),
                            milliseconds(project(work, a6000, inside, 8, bytes, hidden).sum));
        for (const int ranks : {8, 16, 32, 64}) {
          const Network& network = ranks == 8 ? inside : between;
          const Projected overlapped = project(work, a6000, network, ranks, bytes, hidden),
                          plain = project(work, a6000, network, ranks, bytes, 0);
          text += fmt::format(" {:.0f}% ({:.0f}%) |", percent(overlapped.efficiency),
                              percent(plain.efficiency));
        }
        text += "\n";
      }
  return text + "\n";
}

std::string about_columns(bool cluster) {
  return std::string("Times are milliseconds of a step") +
         (cluster ? " on rank 0" : " on the rank that computes longest in it") +
         ", means of the middle half of the steps; they add up. compute: forward and backward, "
         "sums under way beside it. exposed: what is left of the sum over ranks after it. update: "
         "agreement, clipping and AdamW. One rank's exposed is its own adding up of "
         "micro-batches." +
         (cluster ? " What happens between steps (checkpoints, validation) is not in them."
                  : " waiting for the slowest: how long the other ranks stand still for that rank, "
                    "on average, before exposed begins.") +
         " efficiency: tokens/s over ranks x tokens/s of the smallest run; per core: over the "
         "cores that the ranks have, where they share them.\n\n";
}

std::string page(const std::vector<ScalingRun>& runs, const std::string& head,
                 const std::string& plot) {
  const bool cluster = runs.front().place == "cluster";
  std::string text =
      head + about_columns(cluster) + fmt::format("![Speed-up and split of a step]({})\n\n", plot);
  for (const auto& [kind, title] :
       {std::pair{"weak", "Weak scaling: the same documents per rank"},
        std::pair{"strong", "Strong scaling: the same batch over all ranks"}})
    if (std::ranges::any_of(runs, [&](const ScalingRun& run) { return run.kind == kind; }))
      text += fmt::format("## {}\n\n", title) + step_table(runs, kind);
  text += losses_line(runs);
  if (cluster) return text;
  text += "## Communication\n\n" + communication_table(runs);
  const Check checked = check_model(runs);
  if (checked.text.empty()) return text;
  return text + "## The model beside what was measured\n\n" + checked.text +
         "\n## 8 to 64 GPUs: projection, not measured\n\nNothing of this section has been "
         "run.\n\n" +
         projection(checked.hidden);
}

void write_all(const std::vector<ScalingRun>& runs, const std::string& head,
               const std::string& stem) {
  write_text_file(stem + ".svg", scaling_svg(runs));
  const std::string text =
      page(runs, head, std::filesystem::path(stem + ".svg").filename().string());
  write_text_file(stem + ".md", text);
  fmt::print("{}", text);
  check(runs);
}

void from_lines(const std::string& path, const std::string& stem) {
  std::vector<ScalingRun> runs;
  Json header;
  LineReader lines(path);
  for (std::string line; lines.next(line);) {
    const Json value = parse_json(line, lines.where());
    if (value.contains("header"))
      header = value.at("header");
    else
      runs.push_back(read_line(value));
  }
  if (runs.empty() || header.is_null()) throw input_error("{} holds no run, or no header", path);
  const ScalingRun& first = runs.front();
  const std::string head = fmt::format(
      "# Scaling of training, {}\n\n{}; one computing thread per rank, and one for communication. "
      "`{}`, commit {}. The Trainer with the weights of all-MiniLM-L6-v2, six layers and a linear "
      "head learn ({:.1f} MB of fp32 gradients), {} products, debtags-topical texts cut at 128 "
      "tokens. machine: ranks joined by shared memory. nodes: one rank on each network namespace "
      "of this machine, 1 Gbit/s each way. Raw: [{}]({}).\n\n",
      header.at("date").get<std::string>(), header.at("machine").get<std::string>(),
      header.at("command").get<std::string>(), header.at("commit").get<std::string>(),
      first.bytes / 1e6, first.precision, std::filesystem::path(stem + ".json").filename().string(),
      std::filesystem::path(stem + ".json").filename().string());
  write_all(runs, head, stem);
}

void from_folders(const std::string& stem, const std::vector<std::string>& folders) {
  std::vector<ScalingRun> runs;
  for (const std::string& folder : folders) runs.push_back(read_folder(folder));
  std::ranges::sort(runs, {}, &ScalingRun::ranks);
  const bool strong = runs.front().batch == runs.back().batch;
  for (ScalingRun& run : runs) {
    run.kind = strong ? "strong" : "weak";
    const std::string config =
        read_text_file(std::filesystem::path(folders.front()) / "config.ini");
    run.wire = config.find("reduce-type = bf16") != std::string::npos ? "bf16" : "fp32";
  }
  write_all(runs,
            fmt::format(
                "# Scaling of training on a cluster\n\nFrom {} run folders, `{}` and the like.\n\n",
                runs.size(), folders.front()),
            stem);
}

}  // namespace
}  // namespace gpuhpc

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() >= 3 && arguments[0] == "--collect")
      gpuhpc::from_folders(arguments[1], {arguments.begin() + 2, arguments.end()});
    else if (arguments.size() == 2)
      gpuhpc::from_lines(arguments[0], arguments[1]);
    else
      throw gpuhpc::usage_error("scaling_table_bench RUNS.json OUT, or --collect OUT FOLDER...");
    return 0;
  } catch (const gpuhpc::Error& error) {
    fmt::print(stderr, "scaling_table_bench: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "scaling_table_bench: {}\n", error.what());
    return static_cast<int>(gpuhpc::ExitCode::bad_data);
  }
}
