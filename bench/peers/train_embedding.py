"""Fine-tuning a sentence encoder on pairs: gpuhpc train-embedding beside sentence-transformers, same rows, loss, batch, rates and steps.

    python bench/peers/train_embedding.py --model .deps/models/all-MiniLM-L6-v2 --train pairs/train.jsonl --test pairs/test.jsonl \\
        --program build/release/gpuhpc [--rows 5000] [--batch 64] [--micro-batch 32] [--seeds 3] [--precision bf16] [--matryoshka 128,64]

Rows are {"anchor", "positive"} (data_tools/make_description_pairs.py makes 50,000 real ones). Both use in-batch negatives (scale 20), AdamW, 2e-5 at a
batch of 32 in proportion to the batch, a tenth of warm-up, linear decay, clipping at 1, dropout .1, 128 tokens, one epoch. --micro-batch: the batch is
computed in such pieces with the whole batch's gradient (GradCache: CachedMultipleNegativesRankingLoss there). Printed for each seed: NDCG@10 on the test
rows before and after (of both by sentence-transformers' InformationRetrievalEvaluator in fp32, from the folders that were left), pairs per second of
training (loading and evaluation left out), and the peak memory of the process that trained. The two take turns.
"""
import argparse
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from schedules import linear_schedule
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

LENGTH, BASE_RATE, BASE_BATCH, DECAY = 128, 2e-5, 32, .01


def read_rows(path, count):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(count), file)]


def ndcg(folder, rows, widths):
    queries = {text: f"q{i}" for i, text in enumerate(dict.fromkeys(r["anchor"] for r in rows))}
    documents = {text: f"d{i}" for i, text in enumerate(dict.fromkeys(r["positive"] for r in rows))}
    relevant = {}
    for row in rows:
        relevant.setdefault(queries[row["anchor"]], set()).add(documents[row["positive"]])
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = LENGTH
    found = {}
    for width in [model.get_embedding_dimension(), *widths]:
        evaluator = InformationRetrievalEvaluator({i: t for t, i in queries.items()}, {i: t for t, i in documents.items()}, relevant,
                                                  truncate_dim=width, ndcg_at_k=[10], main_score_function="cosine", name="x")
        found[width] = evaluator(model)["x_cosine_ndcg@10"]
    return found


def train_theirs(options, rows, seed, folder):
    torch.set_num_threads(options.threads)
    torch.manual_seed(seed)
    model = SentenceTransformer(options.model, device="cpu")
    model.max_seq_length = LENGTH
    if options.micro_batch:
        loss = losses.CachedMultipleNegativesRankingLoss(model, scale=20, mini_batch_size=options.micro_batch)
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=20)
    if options.widths:
        loss = losses.MatryoshkaLoss(model, loss, matryoshka_dims=[model.get_embedding_dimension(), *options.widths])
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    known = {id(p) for p in plain}
    decayed = [p for p in model.parameters() if id(p) not in known]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0}],
                                  lr=BASE_RATE * options.batch / BASE_BATCH)
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    batches = [order[i:i + options.batch] for i in range(0, len(order), options.batch)]
    schedule = linear_schedule(optimizer, len(batches))
    model.train()
    start = time.perf_counter()
    for batch in batches:
        columns = [[rows[i][name] for i in batch] for name in ("anchor", "positive")]
        features = [model.preprocess(texts) for texts in columns]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            value = loss(features, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - start
    model.save(str(folder))
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def train_ours(options, rows, seed, folder):
    train = folder / "train.jsonl"
    folder.mkdir()
    train.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [options.program, "train-embedding", "--embedding.train", train, "--run.dir", folder / "run", "--model.encoder", options.model,
               "--device.kind", "cpu", "--device.threads", str(options.threads), "--train.batch", str(options.batch), "--train.seed", str(seed),
               "--train.precision", options.precision, "--pipeline.to", "training"]
    command += ["--train.micro-batch", str(options.micro_batch or options.batch)]  # the whole batch at once, as theirs
    if options.widths:
        command += ["--embedding.matryoshka", ",".join(map(str, options.widths))]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"gpuhpc ended with {os.waitstatus_to_exitcode(status)}: {command}")
    (stage,) = (folder / "run" / "stages").glob("*-training")
    steps = [json.loads(line) for line in (stage / "metrics.jsonl").read_text().splitlines()]
    return sum(step["step_seconds"] for step in steps), used.ru_maxrss / 1024, stage / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("model", "train", "test", "program"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--matryoshka", default="")
    options = parser.parse_args()
    options.widths = [int(word) for word in options.matryoshka.split(",") if word]
    torch.set_num_threads(options.threads)
    rows, test = read_rows(options.train, options.rows), read_rows(options.test, options.test_rows)
    show = lambda found: ", ".join(f"{width}: {value:.4f}" for width, value in found.items())  # noqa: E731
    pieces = f" in pieces of {options.micro_batch}" if options.micro_batch else ""
    print(f"{len(rows)} pairs to learn from, {len(test)} to search, batch {options.batch}{pieces}, {options.precision}, {options.threads} threads")
    print(f"start                      NDCG@10 {show(ndcg(options.model, test, options.widths))}", flush=True)
    ends, speeds = {"ours": [], "theirs": []}, {"ours": [], "theirs": []}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as work:
            seconds, peak, model = train_ours(options, rows, seed + 1, Path(work) / "ours")
            with multiprocessing.get_context("spawn").Pool(1) as one:  # a process of its own, whose memory is seen
                theirs, their_peak = one.apply(train_theirs, (options, rows, seed + 1, Path(work) / "theirs"))
            for who, took, most, folder in (("ours", seconds, peak, model), ("theirs", theirs, their_peak, Path(work) / "theirs")):
                found = ndcg(folder, test, options.widths)
                ends[who].append(next(iter(found.values())))
                speeds[who].append(len(rows) / took)
                name = "gpuhpc" if who == "ours" else "sentence-transformers"
                print(f"{name:21} seed {seed + 1} NDCG@10 {show(found)}; {speeds[who][-1]:.1f} pairs/s, peak {most:.0f} MiB", flush=True)
    print(f"mean NDCG@10: gpuhpc {statistics.mean(ends['ours']):.4f}, sentence-transformers {statistics.mean(ends['theirs']):.4f}; "
          f"pairs/s, medians: {statistics.median(speeds['ours']) / statistics.median(speeds['theirs']):.2f} times")


if __name__ == "__main__":
    main()
