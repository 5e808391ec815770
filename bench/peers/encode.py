"""Text to vectors: gpuhpc beside sentence-transformers and OpenVINO, same texts, same cores or GPU, same run.

    python bench/peers/encode.py --model .deps/models/all-MiniLM-L6-v2 (or all-mpnet-base-v2) --texts data/debtags-topical/test/corpus.txt \\
        --program build/release/encode_bench [--documents 2000] [--cores 0,1] [--rounds 3]

Texts are id<TAB>text lines. The peers work in processes of their own which take turns, round by round; seconds include
tokenizing. Answers are compared with sentence-transformers fp32 before any speed is printed: fp32 within 2e-5, tf32 (to be read beside
the others' fp32) within 1e-4 on CPUs and cosine at least 0.9999 on GPUs, bf16 cosine at least 0.999, int8 .998 on the mean. OpenVINO runs
with the fastest of several settings, found on a part of the texts first; its int8 model is NNCF's, quantized for transformers with 300 of the
texts. int8, of both, is left out where the processor has no VNNI, and said to be.
--device cuda: gpuhpc and sentence-transformers on GPU 0.
The program is built by `cmake --preset release -DGPUHPC_BENCH=ON && cmake --build build/release --target encode_bench`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from embeddings import compare, holds  # noqa: E402

def max_length(model):
    return json.loads((Path(model) / "sentence_bert_config.json").read_text())["max_seq_length"]


def read_texts(path, documents):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n").split("\t", 1)[-1] for _, line in zip(range(documents), file)]


class SentenceTransformers:
    def __init__(self, model, precision, threads, texts, trial, device):
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        kwargs = {} if precision == "fp32" else {"dtype": torch.bfloat16}
        self.model = SentenceTransformer(model, device=device, model_kwargs=kwargs)
        if device == "cuda":
            self.timed(trial, 64)  # starts the GPU's libraries
        times = {size: self.timed(trial, size) for size in ((16, 32, 64) if device == "cpu" else (64, 256, 1024))}
        self.batch_size = min(times, key=times.get)
        self.settings = f"batch {self.batch_size}"

    def timed(self, texts, size):
        start = time.perf_counter()
        self.model.encode(texts, batch_size=size, convert_to_tensor=True).cpu()
        return time.perf_counter() - start

    def encode(self, texts):
        return self.model.encode(texts, batch_size=self.batch_size, convert_to_tensor=True).float().cpu().numpy()


class OpenVino:
    def __init__(self, model, precision, threads, texts, trial, device):
        import openvino
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModel

        class Embedder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = AutoModel.from_pretrained(model)

            def forward(self, input_ids, attention_mask):
                hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
                mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
                return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)

        self.openvino = openvino
        example = torch.ones((2, 8), dtype=torch.int64)
        with torch.no_grad():
            self.graph = openvino.convert_model(Embedder().eval(), example_input=(example, example))
        for port in self.graph.inputs:
            port.get_node().set_partial_shape(openvino.PartialShape([-1, -1]))
        self.graph.validate_nodes_and_infer_types()
        self.tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
        self.tokenizer.enable_truncation(max_length(model))
        self.width = json.loads((Path(model) / "config.json").read_text())["hidden_size"]
        self.tokenizer.no_padding()
        if precision == "int8":
            self.graph = self.quantized(texts[:300])
        self.precision, self.threads = precision, threads
        best, self.kept = None, []  # OpenVINO can hang when a compiled model is freed: all live as long as the process
        for hint, requests in (("THROUGHPUT", threads), ("THROUGHPUT", 2 * threads), ("LATENCY", 1)):
            compiled = self.compile(hint)
            for size in (1, 4, 16):
                self.queue, self.size = openvino.AsyncInferQueue(compiled, requests), size
                self.kept.append((compiled, self.queue))
                self.encode(trial)
                start = time.perf_counter()
                self.encode(trial)
                seconds = time.perf_counter() - start
                if best is None or seconds < best[0]:
                    best = (seconds, self.queue, size, f"{hint.lower()}, {requests} requests, batch {size}")
        _, self.queue, self.size, self.settings = best

    def quantized(self, texts):
        import nncf

        def inputs(text):
            ids = np.array([self.tokenizer.encode(text).ids], np.int64)
            return [ids, np.ones_like(ids)]

        return nncf.quantize(self.graph, nncf.Dataset(texts, inputs), subset_size=len(texts), model_type=nncf.ModelType.TRANSFORMER)

    def compile(self, hint):
        config = {"PERFORMANCE_HINT": hint, "INFERENCE_PRECISION_HINT": "bf16" if self.precision == "bf16" else "f32",
                  "INFERENCE_NUM_THREADS": self.threads}
        if hint == "THROUGHPUT":
            config["NUM_STREAMS"] = self.threads
        return self.openvino.Core().compile_model(self.graph, "CPU", config)

    def encode(self, texts):
        encodings = self.tokenizer.encode_batch_fast(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(encodings[i].ids))
        vectors = np.empty((len(texts), self.width), dtype=np.float32)

        def keep(request, rows):
            vectors[rows] = request.get_output_tensor(0).data

        self.queue.set_callback(keep)
        for first in range(0, len(order), self.size):
            rows = order[first:first + self.size]
            width = len(encodings[rows[0]].ids)
            ids, mask = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.int64)
            for r, i in enumerate(rows):
                count = len(encodings[i].ids)
                ids[r, :count], mask[r, :count] = encodings[i].ids, 1
            self.queue.start_async([ids, mask], rows)
        self.queue.wait_all()
        return vectors


PEERS = {"sentence-transformers fp32": (SentenceTransformers, "fp32"), "sentence-transformers bf16": (SentenceTransformers, "bf16"),
         "OpenVINO fp32": (OpenVino, "fp32"), "OpenVINO bf16": (OpenVino, "bf16"), "OpenVINO int8": (OpenVino, "int8")}


def work(arguments):
    """A peer's process: loads, answers 'ready', then one line of seconds for each line it reads."""
    kind, precision = PEERS[arguments.worker]
    texts = read_texts(arguments.texts, arguments.documents)
    peer = kind(arguments.model, precision, arguments.threads, texts, texts[::max(1, len(texts) // (64 if arguments.device == "cpu" else 2048))],
                arguments.device)
    np.save(arguments.vectors, peer.encode(texts))
    # The new line first: libraries leave unfinished lines behind.
    print("\n" + json.dumps({"settings": peer.settings}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        peer.encode(texts)
        print("\n" + json.dumps({"seconds": time.perf_counter() - start}), flush=True)


class Worker:
    def __init__(self, name, arguments, folder):
        self.name, self.vectors = name, Path(folder) / (name.replace(" ", "-") + ".npy")
        command = [sys.executable, __file__, "--worker", name, "--vectors", str(self.vectors), "--model", arguments.model, "--texts",
                   arguments.texts, "--documents", str(arguments.documents), "--threads", str(arguments.threads), "--device", arguments.device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
        self.settings = self.answer()["settings"]
        self.rows = np.load(self.vectors)
        self.seconds = []

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name} stopped: run it alone with --worker to see why")

    def run(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.seconds.append(self.answer()["seconds"])

    def close(self):
        self.process.kill()
        self.process.wait()


class Ours:
    def __init__(self, precision, arguments, folder, kernels="auto"):
        self.name = f"gpuhpc {precision}" + ("" if kernels in ("auto", "cuda") else f" ({kernels})")
        self.output = Path(folder) / (self.name.replace(" ", "-") + ".h5")
        self.command = [arguments.program, arguments.model, str(Path(folder) / "texts.tsv"), str(self.output), precision,
                        str(arguments.threads), "1" if kernels != "cuda" else "3", kernels]
        self.seconds = []
        self.run()
        self.seconds.clear()
        import h5py

        with h5py.File(self.output, "r") as file:
            self.rows = file["values"][()]

    def run(self):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        self.facts = json.loads(done.stdout)
        self.settings = self.facts["what"]
        self.seconds += self.facts["seconds"]

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", required=True)
    parser.add_argument("--program")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--cores", help="for example 0,1; default: all this process may use")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS), help="names to run, separated by commas")
    parser.add_argument("--kernels", default="auto", help="further levels of gpuhpc's kernels to time, e.g. auto,avx512-bf16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", help="write the figures here too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--vectors", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments)
    if not arguments.program:
        parser.error("--program is missing: the encode_bench of a build with -DGPUHPC_BENCH=ON")
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    if arguments.device == "cuda":
        arguments.peers = ",".join(name for name in arguments.peers.split(",") if not name.startswith("OpenVINO"))
        arguments.kernels = "cuda"
    arguments.threads = len(os.sched_getaffinity(0))
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        texts = read_texts(arguments.texts, arguments.documents)
        (Path(folder) / "texts.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(texts)), encoding="utf-8")
        arguments.texts, arguments.documents = str(Path(folder) / "texts.tsv"), len(texts)
        measure(arguments, folder, len(texts))


def agrees(figures, precision, device):
    if precision == "int8":
        return figures["mean_cosine"] >= 0.998
    if precision != "tf32":
        return holds(figures, precision)
    return figures["largest_difference"] <= 1e-4 if device == "cpu" else figures["smallest_cosine"] >= 0.9999


def measure(arguments, folder, documents):
    wanted = [name for name in PEERS if name in arguments.peers.split(",")]
    if "sentence-transformers fp32" not in wanted:
        wanted.insert(0, "sentence-transformers fp32")  # what all answers are compared with
    vnni = arguments.device == "cpu" and "avx512_vnni" in Path("/proc/cpuinfo").read_text()
    if not vnni:
        print("int8 is left out: it needs a processor with AVX-512 VNNI")
        wanted = [name for name in wanted if "int8" not in name]
    peers = [Worker(name, arguments, folder) for name in wanted]
    peers += [Ours(precision, arguments, folder, kernels) for kernels in arguments.kernels.split(",")
              for precision in ("fp32", "tf32", "bf16", *["int8"] * (vnni and kernels in ("auto", "amx", "avx512-bf16")))]
    reference = peers[0].rows
    print(f"{documents} documents, {arguments.threads} cores; answers against sentence-transformers fp32:", flush=True)
    for peer in peers[1:]:
        figures = compare(peer.rows, reference)
        precision = next((name for name in ("int8", "tf32", "bf16") if name in peer.name), "fp32")
        print(f"  {peer.name:<28} largest difference {figures['largest_difference']:.2e}, smallest cosine {figures['smallest_cosine']:.6f}, mean {figures['mean_cosine']:.6f}")
        if isinstance(peer, Ours) and not agrees(figures, precision, arguments.device):
            raise SystemExit(f"{peer.name}: the answers differ too much; no speed is printed")
    for _ in range(arguments.rounds):
        for peer in peers:
            peer.run()
    tokens = next(peer for peer in peers if isinstance(peer, Ours)).facts["tokens"]
    results = {}
    print(f"\n{'text to vectors, median of ' + str(arguments.rounds):<32}{'docs/s':>10}{'real tokens/s':>16}   settings")
    for peer in peers:
        seconds = statistics.median(peer.seconds)
        results[peer.name] = documents / seconds
        print(f"{peer.name:<32}{documents / seconds:>10.0f}{tokens / seconds:>16.0f}   {peer.settings}")
        peer.close()
    for peer in peers:
        if isinstance(peer, Ours) and arguments.device == "cuda":
            print(f"{peer.name}: tokenizing {peer.facts['tokenizing_seconds'] / statistics.median(peer.seconds):.1%} of the whole")
        elif isinstance(peer, Ours):
            facts = peer.facts
            print(f"{peer.name}: {facts['linear']:.0%} of the time in linears, {facts['attention']:.0%} attention, {facts['other']:.0%} other; "
                  f"tokenizing {facts['tokenizing_seconds'] / statistics.median(peer.seconds):.1%} of the whole")
    for other in ("sentence-transformers bf16", "OpenVINO bf16"):
        if other in results:
            print(f"gpuhpc bf16 / {other}: {results['gpuhpc bf16'] / results[other]:.2f}")
    for other in ("gpuhpc bf16", "OpenVINO int8"):
        if "gpuhpc int8" in results and other in results:
            print(f"gpuhpc int8 / {other}: {results['gpuhpc int8'] / results[other]:.2f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
