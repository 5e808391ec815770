"""Training of a T5: gpuhpc beside transformers, same weights, pairs, batch and cores, in turns.

    python bench/peers/train_seq2seq.py --program build/release/gpuhpc --pairs PAIRS.jsonl --tokenizer T5_FOLDER [--columns positive,anchor]
        [--shapes small] [--precisions fp32,bf16] [--rounds 2] [--steps 6] [--cores 0,1]

A T5 1.0 with random weights (bench/peers/generate.py) learns one epoch of --steps batches of --batch pairs, ragged, in micro-batches of
--micro-batch: AdamW (fused), clipping at 1, no dropout, a constant rate. The peer's micro-batches are padded to their longest pair, their
losses weighted by tokens; bf16 is its autocast. Tokens per second are those of sources and targets without padding, without the first two
steps; the median of the rounds counts. Both read the same pairs, each in an order of its own, so before any speed is printed the mean loss
of the epoch is compared (2%).
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate import make_model

RATE, LEFT_OUT = 1e-4, 2


def token_lists(arguments):
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(arguments.model)
    rows = [json.loads(line) for line in Path(arguments.pairs).read_text(encoding="utf-8").splitlines()]
    return words.pad_token_id, [[words(row[key], truncation=True, max_length=length)["input_ids"]
                                 for key, length in (("source", arguments.source_length), ("target", arguments.target_length))] for row in rows]


def work_peer(arguments):
    import torch
    from transformers import T5ForConditionalGeneration

    torch.set_num_threads(arguments.threads)
    pad, pairs = token_lists(arguments)
    random.Random(arguments.seed).shuffle(pairs)
    model = T5ForConditionalGeneration.from_pretrained(arguments.model, dtype=torch.float32)
    model.config.dropout_rate = 0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0, fused=True)

    def padded(rows, value):
        longest = max(map(len, rows))
        return torch.tensor([row + [value] * (longest - len(row)) for row in rows])

    losses, seconds = [], []
    for step in range(arguments.steps):
        begun = time.perf_counter()
        batch = pairs[step * arguments.batch:(step + 1) * arguments.batch]
        tokens, loss = sum(len(target) for _, target in batch), 0.0
        for first in range(0, len(batch), arguments.micro_batch):
            some = batch[first:first + arguments.micro_batch]
            sources, targets = padded([s for s, _ in some], pad), padded([t for _, t in some], -100)
            with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
                part = model(input_ids=sources, attention_mask=(sources != pad).long(), labels=targets).loss
            part = part.float() * sum(len(t) for _, t in some) / tokens
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
        seconds.append(time.perf_counter() - begun)
    mean = sum(len(s) + len(t) for s, t in pairs) / arguments.steps
    print(json.dumps({"rate": mean / statistics.mean(seconds[LEFT_OUT:]), "loss": statistics.mean(losses), "tokens": mean}))


def run_peer(arguments, model, precision, seed):
    command = [sys.executable, __file__, "--worker", "--model", model, "--precision", precision, "--seed", seed]
    for name in ("pairs", "steps", "batch", "micro_batch", "source_length", "target_length", "threads"):
        command += [f"--{name.replace('_', '-')}", getattr(arguments, name)]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr[-2000:])
    return json.loads(answer.stdout.splitlines()[-1])


def run_program(arguments, model, precision, seed, tokens, run):
    command = [arguments.program, "train-seq2seq", "--seq2seq.train", arguments.pairs, "--seq2seq.model", model, "--seq2seq.prefix", "", "--run.dir", run,
               "--device.kind", "cpu", "--device.threads", arguments.threads, "--train.precision", precision, "--train.epochs", 1,
               "--train.batch", arguments.batch, "--train.micro-batch", arguments.micro_batch, "--train.base-batch", arguments.batch,
               "--seq2seq.source-length", arguments.source_length, "--seq2seq.target-length", arguments.target_length, "--seq2seq.rouge-rows", 0,
               "--train.encoder-lr", RATE, "--train.head-lr", RATE, "--train.decay", "constant", "--train.warmup", 0, "--train.dropout", 0,
               "--train.weight-decay", 0, "--train.validation", 0, "--train.seed", seed]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stdout[-2000:])
    steps = [json.loads(line) for line in next(run.glob("stages/*/metrics.jsonl")).read_text().splitlines()]
    return {"rate": tokens / statistics.mean(step["step_seconds"] for step in steps[LEFT_OUT:]), "loss": statistics.mean(step["loss"] for step in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("program", None), ("pairs", None), ("tokenizer", None), ("columns", "positive,anchor"), ("shapes", "small"),
                        ("precisions", "fp32,bf16"), ("rounds", 2), ("steps", 6), ("batch", 64), ("micro-batch", 16), ("source-length", 128),
                        ("target-length", 48), ("cores", "0,1"), ("threads", 2), ("seed", 1), ("model", None), ("precision", "fp32")):
        parser.add_argument(f"--{name}", default=value, type=int if isinstance(value, int) else str)
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        return work_peer(arguments)
    cores = {int(core) for core in arguments.cores.split(",")}
    os.sched_setaffinity(0, cores)
    arguments.threads = len(cores)
    source, target = arguments.columns.split(",")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with open(arguments.pairs, encoding="utf-8") as file:
            rows = [json.loads(line) for _, line in zip(range(arguments.steps * arguments.batch), file)]
        arguments.pairs = folder / "pairs.jsonl"
        arguments.pairs.write_text("".join(json.dumps({"source": row[source], "target": row[target]}) + "\n" for row in rows), encoding="utf-8")
        for shape in arguments.shapes.split(","):
            make_model(shape, arguments.tokenizer, folder / shape)
            for precision in arguments.precisions.split(","):
                theirs, ours = [], []
                for seed in range(1, arguments.rounds + 1):
                    theirs.append(run_peer(arguments, folder / shape, precision, seed))
                    ours.append(run_program(arguments, folder / shape, precision, seed, theirs[-1]["tokens"], folder / f"run-{shape}-{precision}-{seed}"))
                rates = [statistics.median(one["rate"] for one in side) for side in (ours, theirs)]
                losses = [statistics.mean(one["loss"] for one in side) for side in (ours, theirs)]
                apart = abs(losses[0] - losses[1]) / losses[1]
                failed = failed or apart > .02
                print(f"T5-{shape} {precision}: gpuhpc {rates[0]:.0f}, transformers {rates[1]:.0f} tokens/s: {rates[0] / rates[1]:.2f} times; mean loss "
                      f"{losses[0]:.4f} and {losses[1]:.4f}{'' if apart <= .02 else ': TOO FAR APART'}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
