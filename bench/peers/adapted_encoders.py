"""What an encoder should learn from the unlabelled corpus before it labels: the recipe of recipe_reference.py on training documents, no student.

    python bench/peers/adapted_encoders.py --model .deps/models/all-MiniLM-L6-v2 --data data/debtags-topical --leaves 3 \\
        --kinds sentences neighbours both [--epochs 1] [--work runs/adapted-encoders]

`gpuhpc train-embedding` (--program) learns for each kind from pairs that are made here as `--pipeline.adapt` makes them: a text's first sentence
and the rest of it; a text and its nearest by TF-IDF that is among its nearest by vectors, five of each. Named classes: of texts that hold the whole
name of one leaf alone, the mean reciprocal rank that cosines without words give it; no gold is read for it. Gold of the corpus that is learnt from is read for the
other figures alone.
"""
import argparse
import json
import re
import subprocess
from pathlib import Path

import numpy as np

import recipe_reference as recipe
from embeddings import run_program
from temperature import Corpus


def sentence_pairs(texts):
    cut = [re.match(r"[^\n]*?[.!?](?=[ \n])|[^\n]*", text).end() for text in texts]
    pairs = ((text[:end], text[end:].strip()) for text, end in zip(texts, cut))
    return [(first, rest) for first, rest in pairs if first.strip() and rest]


def neighbour_pairs(texts, by_words, by_vectors, nearest=5):
    near = (next((j for j in words[:nearest] if j in vectors[:nearest]), None) for words, vectors in zip(by_words, by_vectors))
    return [(texts[i], texts[j]) for i, j in enumerate(near) if j is not None and texts[i] != texts[j]]


def rank_of_named(steps, kept):
    scores, whole = kept["scores"] - recipe.CSLS * kept["r"], steps.lexical[0] > .999
    scores, named = (rows[whole.sum(1) == 1] for rows in (scores, whole.argmax(1)))
    return (1 / (1 + (scores > scores[np.arange(len(scores)), named][:, None]).sum(1))).mean()


def learn(arguments, kind, pairs):
    folder = arguments.work / f"{arguments.data.name}-{kind}-{arguments.epochs}"
    rows = folder.with_suffix(".jsonl")
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text("".join(json.dumps({"anchor": a, "positive": b}) + "\n" for a, b in pairs), encoding="utf-8")
    subprocess.run([arguments.program, "train-embedding", "--model.encoder", arguments.model, "--embedding.train", rows, "--run.dir", folder,
                    "--train.epochs", str(arguments.epochs), "--train.encoder-lr", "2e-5", "--train.batch", "32", "--train.base-batch", "32",
                    *arguments.options], check=True, stdout=subprocess.DEVNULL)
    return folder / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--leaves", type=float, required=True)
    parser.add_argument("--kinds", nargs="+", choices=["sentences", "neighbours", "both"], default=["sentences", "neighbours", "both"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("runs/adapted-encoders"))
    parser.add_argument("--program", default="build/release/gpuhpc")
    arguments, arguments.options = parser.parse_known_args()
    data, sparse = Corpus(arguments.data), None

    def steps_of(model):
        steps = recipe.Recipe(data, lambda _, texts: recipe.unit(run_program(
            arguments.program, "infer.precision", model, [str(i) for i in range(len(texts))], texts, "auto")))
        steps.sparse, steps.temperature = sparse, recipe.TEMPERATURE / arguments.leaves ** .25
        return steps

    def row(kind, steps, pairs):
        kept = {}
        steps.posterior(csls="fitted", keep=kept)
        m = steps.marginals(kept["F"])
        found = recipe.metrics(data, m, recipe.expected_f1(data, m, arguments.leaves))
        print(f"| {arguments.data.name}, L={arguments.leaves:g} | {kind} | {pairs} | {found['example_f1']:.4f} | {found['precision_at_1']:.4f} | "
              f"{found['macro_f1']:.4f} | {rank_of_named(steps, kept):.4f} |", flush=True)
        return kept["dense_neighbours"]

    print("| data | learns from | pairs | Example-F1 | P@1 | macro-F1 | named classes |\n|---|---|---|---|---|---|---|")
    start = steps_of(arguments.model)
    dense = row("nothing", start, 0)
    sparse = start.sparse
    of = {"sentences": sentence_pairs(data.train), "neighbours": neighbour_pairs(data.train, sparse[0][0], dense.tolist())}
    of["both"] = of["sentences"] + of["neighbours"]
    for kind in arguments.kinds:
        row(kind, steps_of(learn(arguments, kind, of[kind])), len(of[kind]))


if __name__ == "__main__":
    main()
