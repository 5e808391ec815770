"""Sequence classifiers: gpuhpc beside transformers. Logits, parameter counts, then speed on the same cores or GPU in the same run.

    python bench/peers/cross_encoders.py --program build/release/cross_encoder_bench [--models roberta-base,deberta-v3-base] [--threads 2]

Folders of the published shapes with random weights (transformers' own initialisation) are written under --scratch, one at a time, and
removed. Logits: documents of 1 to 512 tokens, singles and pairs, each computed alone by transformers in fp32; fp32 and tf32 must agree
within 1e-4, bf16 within 5% of the largest logit. Speed: pairs of ragged lengths; transformers sorts them by length and pads batches, the
best of several batch sizes; gpuhpc takes them as they come. gpuhpc's tf32 stands beside transformers' fp32: the two answers agree as far.
Rounds take turns; medians. Real tokens per second.
--device cuda: both on GPU 0, which is waited for before a clock is read; tf32, bf16 and fp16 must agree within 1, 5 and 1% of the largest
logit, and transformers' tf32 stands beside ours.
The program is built by `cmake --preset release -DGPUHPC_BENCH=ON && cmake --build build/release --target cross_encoder_bench`.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LENGTHS = [1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 100, 127, 129, 200, 257, 383, 511, 512]
BASE = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
BERT = dict(model_type="bert", vocab_size=30522)
ROBERTA = dict(model_type="roberta", vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)
RELATIVE = dict(relative_attention=True, position_biased_input=False, type_vocab_size=0, max_relative_positions=-1, layer_norm_eps=1e-7)
DEBERTA = dict(model_type="deberta", vocab_size=50265, pos_att_type=["c2p", "p2c"], **RELATIVE)
DEBERTA_V3 = dict(model_type="deberta-v2", vocab_size=128100, pos_att_type=["p2c", "c2p"], share_att_key=True, position_buckets=256,
                  norm_rel_ebd="layer_norm", **RELATIVE)
MODELS = {"bert-base": {**BERT, **BASE}, "bert-large": {**BERT, **LARGE}, "roberta-base": {**ROBERTA, **BASE}, "roberta-large": {**ROBERTA, **LARGE},
          "deberta-base": {**DEBERTA, **BASE}, "deberta-large": {**DEBERTA, **LARGE}, "deberta-v3-base": {**DEBERTA_V3, **BASE},
          "deberta-v3-large": {**DEBERTA_V3, **LARGE}}


def documents_of(lengths, config, seed):
    """Token ids and segments; every second one a pair."""
    source = random.Random(seed)
    documents = []
    for i, length in enumerate(lengths):
        ids = [source.randrange(5, config.vocab_size) for _ in range(length)]
        first = length // 2 if i % 2 else length
        documents.append((ids, [0] * first + [1] * (length - first)))
    return documents


def write_tokens(path, documents):
    import torch
    from safetensors.torch import save_file

    offsets = [0]
    for ids, _ in documents:
        offsets.append(offsets[-1] + len(ids))
    flat = lambda which: torch.tensor(sum((document[which] for document in documents), []), dtype=torch.int32)  # noqa: E731
    save_file({"token_ids": flat(0), "segment_ids": flat(1), "offsets": torch.tensor(offsets, dtype=torch.int32)}, path)


def logits_of(model, documents, batch_size):
    """In the order of the documents, computed in padded batches of similar length."""
    import torch

    order = sorted(range(len(documents)), key=lambda i: len(documents[i][0]))
    rows = [None] * len(documents)
    pad, device = model.config.pad_token_id or 0, model.device
    for first in range(0, len(order), batch_size):
        part = order[first:first + batch_size]
        width = max(len(documents[i][0]) for i in part)
        fill = lambda values, value: values + [value] * (width - len(values))  # noqa: E731
        inputs = {"input_ids": torch.tensor([fill(documents[i][0], pad) for i in part], device=device),
                  "attention_mask": torch.tensor([fill([1] * len(documents[i][0]), 0) for i in part], device=device)}
        if model.config.type_vocab_size > 1:
            inputs["token_type_ids"] = torch.tensor([fill(documents[i][1], 0) for i in part], device=device)
        with torch.inference_mode():
            for i, row in zip(part, model(**inputs).logits):
                rows[i] = row.float()
    return torch.stack(rows).cpu()  # waits for a GPU, once


class Program:
    def __init__(self, arguments, folder, tokens, precision, output):
        command = [arguments.program, str(folder), str(tokens), precision, str(arguments.threads), str(output)]
        if arguments.device == "cuda" or arguments.kernels:
            command.append("cuda" if arguments.device == "cuda" else arguments.kernels)
        self.kind = "processor" if arguments.processor else "seconds"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the program stopped: see its message above")
        return json.loads(line)

    def seconds(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.answer()[self.kind]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def make(name, folder):
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    settings = dict(MODELS[name])
    labels = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
    config = AutoConfig.for_model(settings.pop("model_type"), **settings, num_labels=3, id2label=dict(enumerate(labels)),
                                  label2id={label: i for i, label in enumerate(labels)})
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(folder)
    return model


def products(precision):
    """Whether torch may round the inputs of fp32 products on a GPU."""
    import torch

    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def limits(arguments, largest):
    if arguments.device == "cpu":
        return {"fp32": 1e-4, "tf32": 1e-4, "bf16": 0.05 * largest}
    return {"fp32": 1e-4, "tf32": 0.01 * largest, "bf16": 0.05 * largest, "fp16": 0.01 * largest}


def compare(arguments, name, model, folder):
    from safetensors.torch import load_file

    documents = documents_of(LENGTHS + LENGTHS[1:], model.config, 3)
    tokens, output = folder / "tokens.safetensors", folder / "logits.safetensors"
    write_tokens(tokens, documents)
    products("fp32")
    wanted = logits_of(model, documents, 1)
    largest = wanted.abs().max().item()
    figures = {"parameters": sum(p.numel() for p in model.parameters()), "spread": wanted.std(0).max().item(), "largest": largest}
    for precision, limit in limits(arguments, largest).items():
        program = Program(arguments, folder, tokens, precision, output)
        program.close()
        figures[precision] = (load_file(output)["logits"] - wanted).abs().max().item()
        figures["ours"] = program.facts["parameters"]
        if figures["ours"] != figures["parameters"] or not figures[precision] <= limit:
            raise SystemExit(f"{name}: {figures}: the answers differ; no speed is measured")
    differences = ", ".join(f"{precision} {figures[precision]:.1e}" for precision in limits(arguments, largest))
    print(f"{name:<17} {figures['parameters']:>11} parameters (equal), logits up to {largest:.3f}, spread {figures['spread']:.3f}; "
          f"largest difference {differences}", flush=True)
    return figures


def measure(arguments, name, model, folder):
    import torch

    source = random.Random(5)
    lengths = [min(512, max(20, int(source.lognormvariate(4.7, 0.6)))) for _ in range(arguments.pairs)]
    documents = documents_of(lengths, model.config, 7)
    tokens = folder / "tokens.safetensors"
    write_tokens(tokens, documents)
    clock = time.process_time if arguments.processor else time.perf_counter
    cuda, figures = arguments.device == "cuda", {}
    rows = (("fp32", ("fp32",)), ("tf32", ("tf32",)), ("bf16", ("bf16", "fp16"))) if cuda else (("fp32", ("fp32", "tf32")), ("bf16", ("bf16",)))
    for precision, of_ours in rows:
        model = model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
        products(precision)
        if cuda:
            logits_of(model, documents, 32)  # starts the GPU's libraries
        trial = {}
        for size in ((16, 32, 64, 128) if cuda else (4, 8, 16)):
            start = clock()
            logits_of(model, documents, size)
            trial[size] = clock() - start
        best = min(trial, key=trial.get)
        programs = [Program(arguments, folder, tokens, kind, folder / "logits.safetensors") for kind in of_ours]
        theirs, ours = [trial[best]], [[] for _ in programs]
        for _ in range(arguments.rounds):
            for program, seconds in zip(programs, ours):
                seconds.append(program.seconds())
            start = clock()
            logits_of(model, documents, best)
            theirs.append(clock() - start)
        unit = "tokens a processor second" if arguments.processor else "tokens/s"
        peer = sum(lengths) / statistics.median(theirs)
        print(f"{name:<17} transformers {precision} {peer:>7.0f} {unit} (batch {best})", end="")
        for program, seconds in zip(programs, ours):
            program.close()
            mine = sum(lengths) / statistics.median(seconds)
            print(f", gpuhpc {program.facts['kernels']} {mine:>7.0f}: {mine / peer:.2f} x", end="")
            figures[program.facts["kernels"]] = {"tokens_per_second": mine, "transformers": precision, "transformers_tokens_per_second": peer}
        print(flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--pairs", type=int, help="of the speed measurement, about 125 tokens each (48; on a GPU 1024); 0: no speed")
    parser.add_argument("--json", type=Path, help="all figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor", action="store_true", help="processor seconds of all threads instead of the clock: for a busy machine")
    parser.add_argument("--kernels", default="", help="level of gpuhpc's kernels, or plain: the operators that training uses")
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="2 GB of room")
    arguments = parser.parse_args()
    if arguments.pairs is None:
        arguments.pairs = 1024 if arguments.device == "cuda" else 48
    if arguments.device == "cuda" and arguments.processor:
        parser.error("--processor counts the processor's seconds, not a GPU's")
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    unknown = [name for name in arguments.models.split(",") if name not in MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; known are {', '.join(MODELS)}")
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    figures = {}
    for name in arguments.models.split(","):
        folder = Path(tempfile.mkdtemp(prefix="cross-", dir=arguments.scratch))
        try:
            model = make(name, folder).to(arguments.device)
            figures[name] = compare(arguments, name, model, folder)
            if arguments.pairs > 0:
                figures[name]["speed"] = measure(arguments, name, model, folder)
            del model
            if arguments.device == "cuda":
                torch.cuda.empty_cache()  # the program is another process
            if arguments.json:
                arguments.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
