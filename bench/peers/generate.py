"""Generation with a T5: gpuhpc beside transformers and CTranslate2, same weights, texts and cores, in turns.

    python bench/peers/generate.py --program build/release/gpuhpc --texts TEXTS.jsonl --tokenizer T5_FOLDER [--shapes small,base]
        [--beams 1,3] [--precisions fp32,bf16] [--rows 64] [--new-tokens 32] [--rounds 2] [--cores 0,1]

A T5 1.0 of the published shape with random weights and the folder's tokenizer writes exactly --new-tokens tokens for each text (so that
everybody does the same work), in batches of at most 32 texts sorted by length. Tokens per second count what was written; loading is left
out; the median of the rounds counts. fp32: nine of ten texts of the first --same rows must be transformers' token for token. CTranslate2 is left out,
and said to be, where it is not installed.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHAPES = {"small": (6, 512, 8, 2048), "base": (12, 768, 12, 3072)}
SOURCE = 128


def make_model(shape, tokenizer, folder):
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    layers, width, heads, between = SHAPES[shape]
    words = AutoTokenizer.from_pretrained(tokenizer)
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(T5Config(vocab_size=len(words), d_model=width, d_kv=64, d_ff=between, num_layers=layers, num_heads=heads,
                                                decoder_start_token_id=words.pad_token_id, pad_token_id=words.pad_token_id,
                                                eos_token_id=words.eos_token_id))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # as drawn, every text would be the same token again and again
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * .05)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def batches(texts, words):
    ids = [words(text, truncation=True, max_length=SOURCE)["input_ids"] for text in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    return [([i for i in order[first:first + 32]], [ids[i] for i in order[first:first + 32]]) for first in range(0, len(order), 32)]


def work(options):
    """One peer: answers with seconds and tokens of each round, and the ids of the texts."""
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(options.model)
    texts = json.loads(Path(options.texts).read_text())
    cut = batches(texts, words)
    found = [None] * len(texts)
    if options.worker == "transformers":
        import torch
        from transformers import T5ForConditionalGeneration

        torch.set_num_threads(options.threads)
        model = T5ForConditionalGeneration.from_pretrained(options.model, dtype=torch.bfloat16 if options.precision == "bf16" else torch.float32).eval()

        def run():
            for places, ids in cut:
                longest = max(map(len, ids))
                padded = torch.tensor([row + [words.pad_token_id] * (longest - len(row)) for row in ids])
                out = model.generate(padded, attention_mask=(padded != words.pad_token_id).long(), num_beams=options.beam, do_sample=False,
                                     min_new_tokens=options.new_tokens, max_new_tokens=options.new_tokens)
                for place, row in zip(places, out[:, 1:].tolist()):
                    found[place] = row
    else:
        import ctranslate2

        folder = Path(options.model) / "ct2"
        if not folder.exists():
            ctranslate2.converters.TransformersConverter(options.model).convert(str(folder))
        model = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=options.threads,
                                       compute_type={"fp32": "float32", "bf16": "bfloat16"}[options.precision])

        def run():
            for places, ids in cut:
                out = model.translate_batch([words.convert_ids_to_tokens(row) for row in ids], beam_size=options.beam,
                                            min_decoding_length=options.new_tokens, max_decoding_length=options.new_tokens, max_batch_size=32)
                for place, result in zip(places, out):
                    found[place] = words.convert_tokens_to_ids(result.hypotheses[0])
    run()
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(json.dumps({"rate": sum(map(len, found)) / (time.perf_counter() - start), "texts": [words.decode(row, skip_special_tokens=True) for row in found]}),
              flush=True)


class Peer:
    def __init__(self, name, options, model, texts, precision, beam):
        command = [sys.executable, __file__, "--worker", name, "--model", model, "--texts", texts, "--precision", precision, "--beam", beam,
                   "--new-tokens", options.new_tokens, "--threads", options.threads]
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line.startswith("{") else None

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
        self.process.wait()


def run_program(options, model, texts, precision, beam, folder):
    rows, out = folder / "rows.jsonl", folder / "out.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in json.loads(texts.read_text())))
    out.unlink(missing_ok=True)
    command = [options.program, "generate", "--model.dir", model, "--input.file", rows, "--output.file", out, "--device.kind", "cpu", "--device.threads",
               options.threads, "--infer.precision", precision, "--generate.beams", beam, "--generate.min-length", options.new_tokens,
               "--generate.max-length", options.new_tokens, "--seq2seq.source-length", SOURCE, "--seq2seq.prefix", "", "--infer.batch", 32]
    answer = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stdout[-2000:])
    rate = float(re.search(r"(\d+) tokens/s", answer.stdout).group(1))
    return {"rate": rate, "texts": [json.loads(line)["text"] for line in out.read_text().splitlines()]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("program", None), ("texts", None), ("tokenizer", None), ("shapes", "small"), ("beams", "1,3"), ("precisions", "fp32,bf16"),
                        ("rows", 64), ("new-tokens", 32), ("rounds", 2), ("same", 64), ("cores", "0,1"), ("threads", 2), ("worker", None), ("model", None),
                        ("precision", "fp32"), ("beam", 1)):
        parser.add_argument(f"--{name}", default=value, type=int if isinstance(value, int) else str)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    cores = {int(core) for core in options.cores.split(",")}
    os.sched_setaffinity(0, cores)
    options.threads = len(cores)
    with open(options.texts, encoding="utf-8") as file:
        rows = [next(value for value in json.loads(line).values() if isinstance(value, str) and len(value) > 60) for _, line in zip(range(options.rows), file)]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        texts = folder / "texts.json"
        texts.write_text(json.dumps(rows))
        for shape in options.shapes.split(","):
            model = folder / shape
            make_model(shape, options.tokenizer, model)
            for beam in options.beams.split(","):
                for precision in options.precisions.split(","):
                    peers = {name: Peer(name, options, model, texts, precision, beam) for name in ("transformers", "CTranslate2")}
                    rates, written = {"gpuhpc": []}, {}
                    for _ in range(options.rounds):
                        for name, peer in peers.items():
                            if (answer := peer.run()) is None:
                                continue
                            rates.setdefault(name, []).append(answer["rate"])
                            written[name] = answer["texts"]
                        ours = run_program(options, model, texts, precision, beam, folder)
                        rates["gpuhpc"].append(ours["rate"])
                    for peer in peers.values():
                        peer.close()
                    medians = {name: statistics.median(values) for name, values in rates.items()}
                    same = ""
                    if precision == "fp32" and "transformers" in written:
                        equal = sum(a == b for a, b in zip(ours["texts"][:options.same], written["transformers"][:options.same]))
                        same = f"; {equal} of {min(options.same, len(rows))} texts are transformers'"
                        if len(set(ours["texts"])) < len(rows) / 2:
                            raise SystemExit("the texts are too much alike to be compared")
                        # With random weights rounding decides a few: CTranslate2 has 61 of 64 of T5-base's.
                        failed = failed or equal < .9 * min(options.same, len(rows))
                    shown = ", ".join(f"{name} {value:.0f} ({medians['gpuhpc'] / value:.2f} times)" for name, value in medians.items() if name != "gpuhpc")
                    missing = "" if "CTranslate2" in medians else "; CTranslate2 did not run here"
                    print(f"T5-{shape} beams {beam} {precision}: gpuhpc {medians['gpuhpc']:.0f} tokens/s; {shown}{missing}{same}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
