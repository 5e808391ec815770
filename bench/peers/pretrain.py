"""Pretraining of a masked-language model: gpuhpc beside Hugging Face's Trainer, same weights, texts, batch, cores, in turns.

    python bench/peers/pretrain.py --program build/release/gpuhpc --tokenizer .deps/models/all-MiniLM-L6-v2 --texts FILE.txt \\
        [--models small,medium] [--precisions fp32,bf16] [--rounds 3] [--steps 8] [--cores 0,1]

A BERT with random weights (small: 4 layers of 256; medium: BERT-base) learns from a text per line, cut into pieces of --max-length tokens:
once as they are (ragged; the peer's collator pads a batch to its longest piece) and once as full windows (the texts joined). Batches of
--batch pieces in micro-batches of --micro-batch, 15% masked, AdamW (fused), clipping at 1, no dropout. The peer is Trainer with
DataCollatorForLanguageModeling; both read texts that were tokenized before. Tokens per second are real ones, without padding and without
the first two steps; the median of the rounds counts. Which tokens are masked is each one's own draw, so before any speed is printed the
mean loss of the steps is compared (2%).

--peak also times a product of large matrices with PyTorch on the same cores: the machine's peak, of which the share is printed (6 floating
point operations per weight of the layers and token, attention and the head's masked tenth and a half included).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = {"small": (4, 256), "medium": (12, 768)}
RATE, LEFT_OUT = 1e-4, 2


def make_model(name, tokenizer, folder):
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    layers, width = SHAPES[name]
    words = AutoTokenizer.from_pretrained(tokenizer)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(words), hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64, intermediate_size=4 * width,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    BertForMaskedLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def write_texts(path, full, folder, needed, length):
    """Enough of the file's lines; full: joined into texts whose pieces are all full but the last."""
    words, lines = 0, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            lines.append(" ".join(line.split()))
            words += len(lines[-1].split())
            if words > needed * length:
                break
    if full:
        lines = [" ".join(lines)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def work_peer(arguments):
    import torch
    from transformers import AutoTokenizer, BertForMaskedLM, DataCollatorForLanguageModeling, Trainer, TrainerCallback, TrainingArguments
    import time

    torch.set_num_threads(arguments.threads)
    words = AutoTokenizer.from_pretrained(arguments.model)
    pieces, content = [], arguments.max_length - 2
    for line in Path(arguments.texts, "texts.txt").read_text(encoding="utf-8").splitlines():
        ids = words(line, add_special_tokens=False)["input_ids"]
        pieces += [[words.cls_token_id, *ids[i:i + content], words.sep_token_id] for i in range(0, len(ids), content)]
    counted = {"tokens": 0}

    class Collator(DataCollatorForLanguageModeling):
        def __call__(self, features, return_tensors=None):
            batch = super().__call__(features, return_tensors)
            counted["tokens"] += int(batch["attention_mask"].sum())
            return batch

    class Clock(TrainerCallback):
        begun = tokens = None
        losses = []

        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == LEFT_OUT:
                self.begun = time.perf_counter()

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == arguments.steps:
                self.seconds = time.perf_counter() - self.begun

        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in logs:
                # This model's loss is a mean per micro-batch, and Trainer logs their sum.
                self.losses.append(float(logs["loss"]) * arguments.micro_batch / arguments.batch)

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(folder, per_device_train_batch_size=arguments.micro_batch,
                                     gradient_accumulation_steps=arguments.batch // arguments.micro_batch, max_steps=arguments.steps,
                                     learning_rate=RATE, weight_decay=.01, max_grad_norm=1.0, lr_scheduler_type="constant", use_cpu=True,
                                     bf16=arguments.precision == "bf16", logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
                                     optim="adamw_torch_fused", seed=arguments.seed)
        model = BertForMaskedLM.from_pretrained(arguments.model, dtype=torch.float32)
        # Batches are fetched ahead of their step, so tokens are counted per step on average.
        Trainer(model=model, args=settings, train_dataset=[{"input_ids": piece, "attention_mask": [1] * len(piece)} for piece in pieces],
                data_collator=Collator(words, mlm_probability=.15), callbacks=[clock]).train()
    mean = counted["tokens"] / arguments.steps
    print(json.dumps({"rate": mean * (arguments.steps - LEFT_OUT) / clock.seconds, "loss": statistics.mean(clock.losses)}))


def run_peer(arguments, model, texts, precision, seed):
    command = [sys.executable, __file__, "--worker", "--model", model, "--texts", texts, "--precision", precision, "--seed", str(seed)]
    for name in ("steps", "batch", "micro_batch", "max_length", "threads"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr[-2000:])
    return json.loads(answer.stdout.splitlines()[-1])


def run_program(arguments, model, texts, precision, seed, folder):
    run = Path(folder) / f"run-{precision}-{seed}"
    command = [arguments.program, "pretrain", "--input.dir", texts, "--pretrain.model", model, "--run.dir", run, "--device.kind", "cpu",
               "--device.threads", arguments.threads, "--train.precision", precision, "--train.max-steps", arguments.steps, "--train.batch", arguments.batch,
               "--train.micro-batch", arguments.micro_batch, "--train.base-batch", arguments.batch, "--train.max-length", arguments.max_length,
               "--train.encoder-lr", RATE, "--train.head-lr", RATE, "--train.decay", "constant", "--train.warmup", 0, "--train.dropout", 0,
               "--train.validation", 0, "--train.seed", seed, "--pipeline.to", "training"]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stdout[-2000:])
    steps = [json.loads(line) for line in next(run.glob("stages/*-training/metrics.jsonl")).read_text().splitlines()]
    counted = steps[LEFT_OUT:]
    return {"rate": sum(step["tokens"] for step in counted) / sum(step["step_seconds"] for step in counted),
            "loss": statistics.mean(step["loss"] for step in steps)}


def peak(precision, threads):
    """FLOP/s of a large product."""
    code = ("import torch,time\n"
            f"torch.set_num_threads({threads}); t=torch.{'bfloat16' if precision == 'bf16' else 'float32'}\n"
            "a=torch.randn(4096,2048).to(t); b=torch.randn(2048,4096).to(t)\n"
            "best=9e9\n"
            "for _ in range(8):\n"
            "    s=time.perf_counter(); a@b; best=min(best,time.perf_counter()-s)\n"
            "print(2*4096*2048*4096/best)")
    return float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout)


def operations(name, vocabulary, length):
    """Of one token's forward and backward pass."""
    layers, width = SHAPES[name]
    return 3 * 2 * (layers * (12 * width * width + 2 * length * width) + .15 * (width * width + width * vocabulary))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("program", None), ("tokenizer", None), ("texts", None), ("models", "small"), ("precisions", "fp32,bf16"), ("rounds", 3),
                        ("steps", 8), ("batch", 128), ("micro-batch", 32), ("max-length", 128), ("cores", "0,1"), ("threads", 2), ("seed", 1),
                        ("model", None), ("precision", "fp32")):
        parser.add_argument(f"--{name}", default=value, type=int if isinstance(value, int) else str)
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--peak", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        return work_peer(arguments)
    cores = {int(core) for core in arguments.cores.split(",")}
    os.sched_setaffinity(0, cores)
    arguments.threads = len(cores)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models.split(","):
            model = Path(folder) / name
            make_model(name, arguments.tokenizer, model)
            vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
            for full in (False, True):
                texts = Path(folder) / ("full" if full else "ragged")
                write_texts(arguments.texts, full, texts, arguments.steps * arguments.batch, arguments.max_length)
                for precision in arguments.precisions.split(","):
                    theirs, ours = [], []
                    for seed in range(1, arguments.rounds + 1):
                        theirs.append(run_peer(arguments, str(model), str(texts), precision, seed))
                        ours.append(run_program(arguments, str(model), str(texts), precision, seed, Path(folder) / f"{name}-{full}"))
                    rates = [statistics.median(one["rate"] for one in side) for side in (ours, theirs)]
                    losses = [statistics.mean(one["loss"] for one in side) for side in (ours, theirs)]
                    apart = abs(losses[0] - losses[1]) / losses[1]
                    failed = failed or apart > .02
                    share = ""
                    if arguments.peak:
                        length = arguments.max_length
                        share = f", {rates[0] * operations(name, vocabulary, length) / peak(precision, arguments.threads):.0%} of the machine's peak"
                    print(f"{name} {'full windows' if full else 'ragged'} {precision}: gpuhpc {rates[0]:.0f}, Trainer {rates[1]:.0f} tokens/s: "
                          f"{rates[0] / rates[1]:.2f} times{share}; mean loss {losses[0]:.4f} and {losses[1]:.4f}"
                          f"{'' if apart <= .02 else ': TOO FAR APART'}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
