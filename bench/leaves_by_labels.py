#!/usr/bin/env python3
"""leaves_by_labels.py SECTIONS [--documents 25] [--draws 3] [--data NAME...] [--fixed L...] [gpuhpc arguments]   Is the number of leaves that a few labelled documents set a good one?

Three data sets: debtags-topical (several paths per document), the Amazon taxonomy with its generated reviews and the folder SECTIONS that
data_tools/make_sections.py wrote (one path). For each draw of labelled documents `run --input.labels` decodes with the number of leaves that they
set, and with fixed ones; the same labels correct the scores in both. Gold of the labelled documents is read as labels, the rest for the figures
alone. Runs go to runs/leaves-by-labels.
"""
import argparse
import gzip
import json
import os
import random
import subprocess
from pathlib import Path

from amazon_data import make as make_amazon

PROGRAM, ROOT = os.environ.get("GPUHPC", "build/release/gpuhpc"), Path("runs/leaves-by-labels")


def read_gold(data):
    """Of the corpus that is learnt from: train where there is one, else test."""
    for part in ("train", "test"):
        for path in (data / part / "doc2labels.txt", data / part / "doc2labels.txt.gz"):
            if path.exists():
                return (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()).read().splitlines()
    raise SystemExit(f"{data} has no doc2labels.txt")


def run(data, name, *words):
    log = ROOT / f"{name}.log"
    with log.open("w") as out:
        if subprocess.run([PROGRAM, "run", "--input.dir", data, "--run.dir", ROOT / name, "--eval.bootstrap-samples", "0", *words], stdout=out, stderr=out).returncode:
            raise SystemExit(f"{name}: failed, see {log}")
    leaves = json.loads((ROOT / name / "model/gpuhpc/settings.json").read_text())["labelling"]["decode.expected-leaves"]
    return json.loads((ROOT / name / "metrics.json").read_text())["example_f1"], float(leaves)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", type=Path)
    parser.add_argument("--documents", type=int, default=25)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--data", nargs="+", choices=["debtags", "amazon", "sections"], default=["debtags", "amazon", "sections"])
    parser.add_argument("--fixed", type=float, nargs="+", default=[1, 1.5, 2, 2.5, 3, 4, 5])
    options, words = parser.parse_known_args()
    ROOT.mkdir(parents=True, exist_ok=True)
    print(f"| data | draw of {options.documents} | leaves that the labels set | Example-F1 with them | best fixed number | Example-F1 with it | difference |\n|---|---|---|---|---|---|---|")
    folders = {"debtags": Path("data/debtags-topical"), "amazon": ROOT / "amazon-data", "sections": options.sections}
    for name in options.data:
        data = make_amazon(folders[name]) if name == "amazon" else folders[name]
        gold, differences = read_gold(data), []
        run(data, name, *words)
        for draw in range(1, options.draws + 1):
            labels = ROOT / f"{name}-{draw}.txt"
            labels.write_text("\n".join(random.Random(draw).sample(gold, options.documents)) + "\n")
            given = ["--input.labels", labels, *words]
            found, leaves = run(data, name, *given)
            best, fixed = max((run(data, name, *given, "--decode.expected-leaves", str(count))[0], count) for count in options.fixed)
            differences.append(found - best)
            print(f"| {name} | {draw} | {leaves:.2f} | {found:.4f} | {fixed:g} | {best:.4f} | {found - best:+.4f} |", flush=True)
        print(f"| {name} | mean | | | | | {sum(differences) / len(differences):+.4f} |", flush=True)


main()
