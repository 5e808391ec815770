"""Training a T5 on pairs: gpuhpc train-seq2seq beside transformers, same first weights, rows, batch, rates and updates.

    python bench/peers/train_seq2seq.py --program build/release/gpuhpc --train pairs/train.jsonl --test pairs/test.jsonl \\
        [--shape tiny|small|base] [--updates 20] [--batch 16] [--precision fp32|bf16] [--rounds 2] [--quality 500] [--source-length 256] [--grouped | --same-batches]

Rows are {"anchor", "positive"} (data_tools/make_description_pairs.py makes 50,000 real ones): the long description is the source, the short one the target.
A SentencePiece unigram model of 8,000 pieces is learnt from the training rows, and a T5 1.0 of the shape is drawn; both programs start from that folder.
AdamW without decay, a tenth of warm-up, linear decay, clipping at 1, the mean loss over all target tokens of a batch; transformers' rows are padded to the
longest of their batch, which are drawn at random as its Trainer does or, with --grouped, sorted by length within eight batches. --same-batches: both learn
from the same rows at each update, without dropout: what is left between them is rounding. The two take turns.

Printed for each round: tokens (of sources and targets, without padding) per second of training; loading is left out. --quality N: both models write the
short texts of N held-out rows (source packages that were not learnt from; `gpuhpc generate`, greedy, for both folders) and ROUGE-L is that of the
rouge-score package, beside the first sentence of the source (lead-1), with the loss of a target's token by transformers in fp32.
"""
import argparse
import json
import multiprocessing
import random
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import sentencepiece
import torch
from schedules import linear_schedule
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

SHAPES = {"tiny": (4, 256, 4, 1024), "small": (6, 512, 8, 2048), "base": (12, 768, 12, 3072)}
PREFIX, TARGET_LENGTH, VOCABULARY = "summarize: ", 32, 8000


def read_rows(path, count):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(count), file)]
    return [{"source": row["positive"], "target": row["anchor"]} for row in rows]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_start(shape, rows, folder):
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for row in rows for text in row.values()]), model_prefix=str(folder / "spiece"), vocab_size=VOCABULARY,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, model_type="unigram", minloglevel=2)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "extra_ids": 0}\n')
    layers, width, heads, between = SHAPES[shape]
    torch.manual_seed(0)
    config = T5Config(vocab_size=VOCABULARY, d_model=width, d_kv=64, d_ff=between, num_layers=layers, num_heads=heads, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(folder)


def tokenized(words, rows, source_length):
    return [(words(PREFIX + row["source"], truncation=True, max_length=source_length)["input_ids"],
             words(row["target"], truncation=True, max_length=TARGET_LENGTH)["input_ids"]) for row in rows]


def padded(rows, fill):
    longest = max(map(len, rows))
    return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])


def loss_of(model, pairs):
    sources, targets = padded([p[0] for p in pairs], 0), padded([p[1] for p in pairs], -100)
    return model(input_ids=sources, attention_mask=(sources != 0).long(), labels=targets).loss


class Philox:
    """The shuffle of an epoch, as include/gpuhpc/base/random.hpp draws it (Philox 4x32-10)."""

    def __init__(self, seed, stream):
        self.seed, self.stream, self.counter, self.block = seed, stream, 0, []

    def next(self):
        if not self.block:
            low = 0xFFFFFFFF
            c, k = [self.counter & low, self.counter >> 32, self.stream & low, self.stream >> 32], [self.seed & low, self.seed >> 32]
            for _ in range(10):
                p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & low, (p0 >> 32) ^ c[3] ^ k[1], p0 & low]
                k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
            self.block = [c[0] | c[1] << 32, c[2] | c[3] << 32]
            self.counter += 1
        return self.block.pop(0)

    def order(self, count):
        places, most = list(range(count)), 2**64 - 1
        for i in range(count, 1, -1):
            value = self.next()
            while value >= most - most % i:
                value = self.next()
            places[i - 1], places[value % i] = places[value % i], places[i - 1]
        return places


def our_batches(options, pairs, seed):
    batches, epoch = [], 0
    while len(batches) < options.updates:
        places = Philox(seed, epoch).order(len(pairs))
        batches += [places[i:i + options.batch] for i in range(0, len(pairs), options.batch)]
        epoch += 1
    return batches[:options.updates]


def their_batches(options, pairs, seed):
    order, batches = random.Random(seed), []
    while len(batches) < options.updates:
        places = order.sample(range(len(pairs)), len(pairs))
        for first in range(0, len(places) - options.batch + 1, 8 * options.batch):
            group = places[first:first + 8 * options.batch]
            if options.grouped:
                group = sorted(group, key=lambda i: -len(pairs[i][0]))
            cut = [group[i:i + options.batch] for i in range(0, len(group) - options.batch + 1, options.batch)]
            batches += order.sample(cut, len(cut))
    return batches[:options.updates]


def train_theirs(options, start, rows, seed, folder):
    torch.set_num_threads(options.threads)
    torch.manual_seed(seed)
    model = T5ForConditionalGeneration.from_pretrained(start, dropout_rate=options.dropout)
    pairs = tokenized(AutoTokenizer.from_pretrained(start), rows, options.source_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0)
    batches = (our_batches if options.same_batches else their_batches)(options, pairs, seed)
    schedule = linear_schedule(optimizer, options.updates)
    model.train()
    tokens, begin = 0, time.perf_counter()
    for batch in batches:
        chosen = [pairs[i] for i in batch]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = loss_of(model, chosen)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        tokens += sum(len(s) + len(t) for s, t in chosen)
    seconds = time.perf_counter() - begin
    model.save_pretrained(folder)
    return tokens / seconds


def train_ours(options, start, rows, held, seed, folder):
    folder.mkdir()
    write_rows(folder / "train.jsonl", rows)
    write_rows(folder / "held.jsonl", held[:8])
    command = [options.program, "train-seq2seq", "--seq2seq.train", folder / "train.jsonl", "--seq2seq.validation", folder / "held.jsonl", "--seq2seq.model", start,
               "--run.dir", folder / "run", "--device.kind", "cpu", "--device.threads", options.threads, "--train.precision", options.precision,
               "--train.batch", options.batch, "--train.base-batch", options.batch, "--train.micro-batch", options.micro_batch or options.batch,
               "--train.max-steps", options.updates, "--train.encoder-lr", options.rate, "--train.weight-decay", 0, "--train.seed", seed, "--train.dropout",
               options.dropout, "--seq2seq.source-length", options.source_length, "--seq2seq.target-length", TARGET_LENGTH, "--seq2seq.prefix", PREFIX,
               "--seq2seq.rouge-rows", 0, "--pipeline.to", "training"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:])
    (stage,) = (folder / "run" / "stages").glob("*-training")
    steps = [json.loads(line) for line in (stage / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "step_seconds" in step]
    assert len(steps) == options.updates
    return sum(step["tokens"] for step in steps) / sum(step["step_seconds"] for step in steps), stage / "model"


def judge(options, model, start, held, folder):
    """ROUGE-L of what the model writes for the held-out rows, and the loss of a target's token."""
    from rouge_score import rouge_scorer

    words = AutoTokenizer.from_pretrained(start)
    network = T5ForConditionalGeneration.from_pretrained(model).eval()
    pairs = tokenized(words, held, options.source_length)
    total = count = 0
    with torch.no_grad():
        for first in range(0, len(pairs), 50):
            block = pairs[first:first + 50]
            tokens = sum(len(p[1]) for p in block)
            total, count = total + float(loss_of(network, block)) * tokens, count + tokens
    for name in ("spiece.model", "tokenizer_config.json"):
        if not (Path(model) / name).exists():
            (Path(model) / name).write_bytes((start / name).read_bytes())
    texts, out = folder / "texts.jsonl", folder / "written.jsonl"
    write_rows(texts, [{"text": row["source"]} for row in held])
    out.unlink(missing_ok=True)
    command = [options.program, "generate", "--model.dir", model, "--input.file", texts, "--output.file", out, "--device.kind", "cpu", "--device.threads",
               options.threads, "--infer.precision", "fp32", "--generate.beams", 1, "--generate.max-length", TARGET_LENGTH, "--seq2seq.source-length",
               options.source_length, "--seq2seq.prefix", PREFIX]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    written = [json.loads(line)["text"] for line in out.read_text(encoding="utf-8").splitlines()]
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    score = lambda texts: statistics.mean(scorer.score(row["target"], text)["rougeL"].fmeasure for row, text in zip(held, texts))  # noqa: E731
    lead = score([re.split(r"(?<=[.!?])\s", row["source"])[0] for row in held])
    return score(written), total / count, lead, written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "train", "test"):
        parser.add_argument(f"--{name}", required=True)
    for name, value in (("shape", "small"), ("updates", 20), ("batch", 16), ("micro-batch", 0), ("rows", 50000), ("rounds", 2), ("quality", 0), ("threads", 2),
                        ("source-length", 256), ("rate", 1e-3), ("precision", "fp32")):
        parser.add_argument(f"--{name}", default=value, type=type(value))
    parser.add_argument("--dropout", type=float, help="default: .1, with --same-batches 0")
    batches = parser.add_mutually_exclusive_group()
    batches.add_argument("--grouped", action="store_true")
    batches.add_argument("--same-batches", action="store_true")
    options = parser.parse_args()
    if options.same_batches and options.dropout:
        parser.error("--same-batches is without dropout: leave --dropout out")
    if options.dropout is None:
        options.dropout = 0. if options.same_batches else .1
    rows, held = read_rows(options.train, options.rows), read_rows(options.test, max(8, options.quality))
    rates, scores = {"gpuhpc": [], "transformers": []}, {"gpuhpc": [], "transformers": []}
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        start = work / "start"
        make_start(options.shape, rows, start)
        for seed in range(1, options.rounds + 1):
            ours, theirs = work / f"ours-{seed}", work / f"theirs-{seed}"
            rate, model = train_ours(options, start, rows, held, seed, ours)
            rates["gpuhpc"].append(rate)
            with multiprocessing.get_context("spawn").Pool(1) as one:
                rates["transformers"].append(one.apply(train_theirs, (options, start, rows, seed, theirs)))
            for name, folder in (("gpuhpc", model), ("transformers", theirs)):
                said = ""
                if options.quality:
                    rouge, loss, lead, written = judge(options, folder, start, held[:options.quality], work)
                    scores[name].append(rouge)
                    said = f"; ROUGE-L {rouge:.4f} (lead-1 {lead:.4f}), loss {loss:.4f}; writes {written[:3]}"
                print(f"{name:12} seed {seed}: {rates[name][-1]:.0f} tokens/s{said}", flush=True)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    quality = "" if not options.quality else f"; mean ROUGE-L {statistics.mean(scores['gpuhpc']):.4f} and {statistics.mean(scores['transformers']):.4f}"
    print(f"T5-{options.shape}, batch {options.batch}, {options.precision}, {options.updates} updates: gpuhpc {medians['gpuhpc']:.0f} tokens/s, transformers "
          f"{medians['transformers']:.0f}: {medians['gpuhpc'] / medians['transformers']:.2f} times{quality}", flush=True)


if __name__ == "__main__":
    main()
