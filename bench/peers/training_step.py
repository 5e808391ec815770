"""A training step: gpuhpc beside plain PyTorch and Hugging Face Trainer, same weights, same batches, same cores or GPU, same run.

    python bench/peers/training_step.py --program build/release/training_step_bench --tokenizer .deps/models/all-MiniLM-L6-v2 \\
        --texts data/debtags-topical/train/corpus.txt.gz [--models minilm,bert-base] [--precisions fp32,bf16] [--rounds 3] [--cores 0,1]

A sequence classifier (encoder, pooler, linear head) with random weights learns on real texts: batches of 32 documents in random order,
cut at 128 tokens. Everything learns, dropout 0, gradient norm clipped at 1, AdamW (the fused one on both sides). The peers pad a batch
to its longest document, as their collators do; bf16 is torch.autocast. Tokens/s count real tokens. --grouped puts documents of like
length into a batch, which is the best case for padding; --full takes random documents of exactly --max-length tokens, where nothing is
padded. --device cuda runs everybody on GPU 0 (and `--models bert-large --precisions bf16 --full --max-length 512` is what MLPerf packs).

Before any speed is printed, the gradients of the first batch are compared with PyTorch's in fp32 and the losses of the first pass too.
The programs take turns, pass by pass; the median counts.
The program is built by `cmake --preset release -DGPUHPC_BENCH=ON && cmake --build build/release --target training_step_bench`.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LABELS = 16
RATE, DECAY, CLIP = 5e-5, .01, 1.0
# Relative distance of the whole gradient from PyTorch's in fp32, and of any loss of the first pass.
BOUNDS = {"fp32": (1e-4, 1e-3), "bf16": (.05, .03)}


def read_texts(path, count):
    open_text = gzip.open if str(path).endswith(".gz") else open
    with open_text(path, "rt", encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n").split("\t", 1)[-1] for _, line in zip(range(count), file)]


def make_model(name, folder):
    """Random weights, the same for everybody, as a Hugging Face folder."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    shape = {"bert-base": {}, "bert-large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
             "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}}[name]
    torch.manual_seed(0)
    config = BertConfig(num_labels=LABELS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **shape)
    model = BertForSequenceClassification(config)
    model.save_pretrained(folder)


def make_batches(arguments, path):
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer

    count = arguments.batches * arguments.batch_size
    random = np.random.default_rng(0)
    if arguments.full:
        ids = random.integers(1000, 30000, (count, arguments.max_length)).tolist()
    else:
        tokenizer = Tokenizer.from_file(str(Path(arguments.tokenizer) / "tokenizer.json"))
        tokenizer.enable_truncation(arguments.max_length)
        tokenizer.no_padding()
        texts = read_texts(arguments.texts, 8 * count)
        order = random.permutation(len(texts))[:count]
        ids = [encoding.ids for encoding in tokenizer.encode_batch_fast([texts[i] for i in order])]
    if arguments.grouped:
        ids.sort(key=len)
    labels = np.array([sum(document) % LABELS for document in ids], dtype=np.int32)
    offsets = np.cumsum([0] + [len(document) for document in ids]).astype(np.int32)
    batches = np.arange(0, count + 1, arguments.batch_size).astype(np.int32)
    save_file({"token_ids": np.concatenate([np.array(document, dtype=np.int32) for document in ids]), "offsets": offsets, "batches": batches,
               "labels": labels}, path)
    longest = [max(len(document) for document in ids[a:b]) * (b - a) for a, b in zip(batches, batches[1:])]
    return int(offsets[-1]), 1 - offsets[-1] / sum(longest)


def load_batches(path):
    from safetensors.numpy import load_file

    data = load_file(path)
    ids, offsets, labels = data["token_ids"], data["offsets"], data["labels"]
    documents = [{"input_ids": ids[a:b].tolist(), "labels": int(label)} for a, b, label in zip(offsets, offsets[1:], labels)]
    return [documents[a:b] for a, b in zip(data["batches"], data["batches"][1:])]


def pad(documents):
    import torch

    longest = max(len(document["input_ids"]) for document in documents)
    ids = torch.zeros((len(documents), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        count = len(document["input_ids"])
        ids[row, :count] = torch.tensor(document["input_ids"])
        mask[row, :count] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([document["labels"] for document in documents])}


def clocks():
    return time.perf_counter(), time.process_time()


def since(start):
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.synchronize()
    return {"seconds": time.perf_counter() - start[0], "processor": time.process_time() - start[1]}


def answer(**figures):
    print(json.dumps(figures), flush=True)


def work_pytorch(arguments, batches, model):
    """The loop that the tutorials write: padded batches, autocast, clipping, fused AdamW."""
    import torch
    from safetensors.torch import save_file

    padded = [{name: value.to(arguments.device) for name, value in pad(batch).items()} for batch in batches]
    bf16 = arguments.precision == "bf16"
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}], lr=RATE, fused=True)

    def backward(batch):
        with torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=bf16):
            loss = model(**batch).loss
        loss.backward()
        return loss.item()

    backward(padded[0])
    save_file({name: p.grad.clone() for name, p in model.named_parameters()}, arguments.gradients)
    answer(ready=True)
    for _ in sys.stdin:
        start, losses = clocks(), []
        for batch in padded:
            optimizer.zero_grad()
            losses.append(backward(batch))
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
        answer(**since(start), losses=losses)


def work_trainer(arguments, batches, model):
    """Hugging Face Trainer with its defaults, documents in the order of the batches; one pass is as many of its steps as there are batches."""
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class TakesTurns(TrainerCallback):
        start = None

        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step % len(batches) == 0:
                if state.global_step == 0:
                    answer(ready=True)
                if not sys.stdin.readline():
                    os._exit(0)
                self.start = clocks()

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step % len(batches) == 0:
                answer(**since(self.start))

    class InOrder(Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(folder, per_device_train_batch_size=arguments.batch_size, max_steps=1_000_000, learning_rate=RATE,
                                     weight_decay=DECAY, max_grad_norm=CLIP, lr_scheduler_type="constant", use_cpu=arguments.device == "cpu",
                                     bf16=arguments.precision == "bf16", logging_strategy="no", save_strategy="no", report_to=[],
                                     disable_tqdm=True)
        documents = [document for batch in batches for document in batch]
        InOrder(model=model, args=settings, train_dataset=documents, data_collator=pad, callbacks=[TakesTurns()]).train()


PEERS = {"PyTorch": work_pytorch, "HF Trainer": work_trainer}


def work(arguments):
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(arguments.threads)
    batches = load_batches(arguments.data)
    model = BertForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float32).to(arguments.device)
    model.train()
    PEERS[arguments.worker](arguments, batches, model)


class Worker:
    def __init__(self, name, command, gradients):
        self.name, self.gradients = name, gradients
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.passes = []
        self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name} stopped")

    def run(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.passes.append(self.answer())

    def seconds(self, which):
        return statistics.median(one[which] for one in self.passes[1:])  # the first pass warms up

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def distance(path, reference):
    """Relative distance of two gradients over all tensors; names without the model's prefix."""
    from safetensors.numpy import load_file

    def plain(name):
        return name.removeprefix("bert.").removeprefix("bert.")

    ours = {plain(name): value for name, value in load_file(path).items()}
    wanted = {plain(name): value for name, value in load_file(reference).items()}
    if sorted(ours) != sorted(wanted):
        raise SystemExit(f"other parameters: {sorted(set(ours) ^ set(wanted))[:4]}")
    apart = sum(float(((ours[name].astype(np.float64) - wanted[name]) ** 2).sum()) for name in wanted)
    return (apart / sum(float((value.astype(np.float64) ** 2).sum()) for value in wanted.values())) ** .5


def measure(arguments, name, folder, results):
    model, data = Path(folder) / name, Path(folder) / f"{name}.safetensors"
    make_model(name, model)
    tokens, padding = make_batches(arguments, data)
    print(f"\n{name}: {arguments.batches} batches of {arguments.batch_size} documents, {tokens} tokens (padding would add "
          f"{padding / (1 - padding):.0%}), {'GPU 0' if arguments.device == 'cuda' else f'{arguments.threads} threads'}, {arguments.clock} counted", flush=True)
    reference = None
    for precision in arguments.precisions.split(","):
        workers = []
        for peer in PEERS:
            gradients = Path(folder) / f"{name}-{precision}-{peer.replace(' ', '-')}.safetensors"
            workers.append(Worker(peer, [sys.executable, __file__, "--worker", peer, "--model", str(model), "--data", str(data), "--precision", precision,
                                         "--gradients", str(gradients), "--threads", str(arguments.threads), "--batch-size",
                                         str(arguments.batch_size), "--device", arguments.device], gradients))
        gradients = Path(folder) / f"{name}-{precision}-gpuhpc.safetensors"
        workers.append(Worker("gpuhpc", [arguments.program, str(model), str(data), precision, str(arguments.threads), str(gradients)] +
                              (["cuda"] if arguments.device == "cuda" else []), gradients))
        peer, ours = workers[0], workers[-1]
        for worker in workers:
            worker.run()
        reference = reference or (peer.gradients, peer.passes[0]["losses"])  # fp32 comes first
        of_gradient, of_loss = BOUNDS[precision]
        far = distance(ours.gradients, reference[0])
        losses = max(abs(a - b) / abs(b) for a, b in zip(ours.passes[0]["losses"], reference[1]))
        print(f"{name} {precision}: gradient {far:.1e} from PyTorch fp32 (PyTorch {precision}: {distance(peer.gradients, reference[0]):.1e}), "
              f"losses of {len(reference[1])} steps within {losses:.1e}", flush=True)
        if not (far < of_gradient and losses < of_loss):
            raise SystemExit("the answers differ too much; no speed is printed")
        for _ in range(arguments.rounds):
            for worker in workers:
                worker.run()
        best = max(tokens / worker.seconds(arguments.clock) for worker in workers[:-1])
        for worker in workers:
            speed = tokens / worker.seconds(arguments.clock)
            results[f"{name} {precision} {worker.name}"] = speed
            note = ""
            if worker is ours:
                one = sorted(worker.passes[1:], key=lambda p: p["seconds"])[(len(worker.passes) - 1) // 2]
                note = (f"   {speed / best:.2f} x the faster peer; forward {one['forward'] / one['seconds']:.0%}, backward "
                        f"{one['backward'] / one['seconds']:.0%}, norm and AdamW {one['update'] / one['seconds']:.0%}")
            print(f"  {worker.name:<12}{speed:>9.0f} tokens/s{note}", flush=True)
            worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="training_step_bench of a build with -DGPUHPC_BENCH=ON")
    parser.add_argument("--tokenizer", help="folder with tokenizer.json (30,522 words)")
    parser.add_argument("--texts", help="id<TAB>text lines, perhaps gzipped")
    parser.add_argument("--models", default="minilm,bert-base")
    parser.add_argument("--precisions", default="fp32,bf16", help="fp32 first: the others are compared with it")
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--full", action="store_true", help="random documents of exactly --max-length tokens")
    parser.add_argument("--grouped", action="store_true", help="documents of like length share a batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", help="for example 0,1; default: all this process may use")
    parser.add_argument("--threads", type=int, help="default: as many as cores")
    parser.add_argument("--clock", choices=("seconds", "processor"), default="seconds",
                        help="processor: seconds of the processor instead of the clock's, for a busy machine; give --threads 1")
    parser.add_argument("--json", help="write the figures here too")
    for hidden in ("--worker", "--model", "--data", "--precision", "--gradients"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments)
    for needed in ("program",) if arguments.full else ("program", "tokenizer", "texts"):
        if not getattr(arguments, needed):
            parser.error(f"--{needed} is missing")
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    arguments.threads = arguments.threads or len(os.sched_getaffinity(0))
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models.split(","):
            measure(arguments, name, folder, results)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
